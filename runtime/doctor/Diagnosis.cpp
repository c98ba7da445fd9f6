#include "doctor/Diagnosis.h"

#include "launch/Rendezvous.h"
#include "plan/FormatText.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace fsdp::doctor {

namespace {

using Hosts = std::vector<std::vector<const RankReport *>>;

// A rank that computes at less than this part of the fastest one's speed keeps
// the others waiting.
constexpr double slowPart = 0.6;
// Clocks that differ by less do not confuse readers of logs.
constexpr double mostClockSeconds = 1;
// Docker's default for /dev/shm, in which loaders of PyTorch keep batches.
constexpr uint64_t leastSharedMemory = 64 << 20;

class Diagnosis {
public:
  explicit Diagnosis(const std::vector<RankReport> &ranks)
      : ranks(ranks), hosts(byHost(ranks)) {
    for (const RankReport &rank : ranks)
      for (const TransportFigures &figures : rank.transports)
        connects = connects && (!figures.isNeeded || figures.error.empty());
  }

  std::vector<Finding> run() {
    compareHosts();
    compareVariables();
    for (const auto &host : hosts)
      lookAtHost(host);
    for (const auto &host : hosts)
      lookAtLinks(factsOf(host));
    lookAtTransports();
    lookForSlowRanks();
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding &a, const Finding &b) {
                       return a.severity < b.severity;
                     });
    return std::move(findings);
  }

private:
  void problem(const std::string &text) {
    findings.push_back({Severity::Problem, text});
  }
  void note(const std::string &text) {
    findings.push_back({Severity::Note, text});
  }
  static const HostFacts &factsOf(const Hosts::value_type &host) {
    return host.front()->facts;
  }
  /// The interface by which a host reaches the rendezvous, else the first that
  /// is none of its own.
  static std::string wayOut(const HostFacts &facts) {
    const Interface *found = interfaceOf(facts.interfaces, facts.reaches);
    if (found && !found->isLoopback)
      return found->name;
    for (const Interface &interface : facts.interfaces)
      if (interface.isUp && !interface.isLoopback &&
          !interface.addresses.empty())
        return interface.name;
    return "the name of one that others reach";
  }

  void compareHosts();
  void compareVariables();
  void lookAtHost(const Hosts::value_type &host);
  void lookAtListening(const HostFacts &facts);
  void lookAtCores(const Hosts::value_type &host);
  void lookAtLinks(const HostFacts &facts);
  void lookAtTransports();
  void lookForSlowRanks();

  const std::vector<RankReport> &ranks;
  Hosts hosts;
  bool connects = true; // what a run of these ranks would use works
  std::vector<Finding> findings;
};

/// Empty: loopback, which is a finding by itself.
std::string mtuText(const HostFacts &facts) {
  const Interface *used = interfaceOf(facts.interfaces, facts.listens);
  return used && !used->isLoopback ? std::to_string(used->mtu) : "";
}

/// What hosts should have in common, and what to do where they do not.
const struct Compared {
  const char *what;
  Severity severity;
  std::string (*value)(const HostFacts &);
  const char *remedy;
} compared[] = {
    {"fsdp-run", Severity::Problem,
     [](const HostFacts &facts) { return facts.version; },
     "install the same version on all hosts"},
    {"PyTorch", Severity::Problem,
     [](const HostFacts &facts) { return facts.pytorch; },
     "install the same version on all hosts"},
    {"CUDA and NCCL", Severity::Note,
     [](const HostFacts &facts) { return facts.cuda; },
     "NCCL refuses ranks of different versions; plans for CPUs do not use it"},
    {"processor", Severity::Note,
     [](const HostFacts &facts) { return facts.processor; },
     "ranks wait for the slowest, and different kernels may give different "
     "bits"},
    {"usable cores", Severity::Note,
     [](const HostFacts &facts) { return std::to_string(facts.cores); },
     "ranks wait for the slowest"},
    {"the MTU of the interface between them", Severity::Note, mtuText,
     "packets of the larger size may be lost on the way: give all the same (ip "
     "link set dev NAME mtu N)"},
};

void Diagnosis::compareHosts() {
  for (const Compared &row : compared) {
    std::string first = row.value(factsOf(hosts[0]));
    for (const auto &host : hosts) {
      std::string other = row.value(factsOf(host));
      if (other == first || other.empty() || first.empty())
        continue;
      findings.push_back(
          {row.severity, "hosts differ in " + std::string(row.what) + ": " +
                             factsOf(hosts[0]).host + " has " + first + ", " +
                             factsOf(host).host + " has " + other + "; " +
                             row.remedy});
      break;
    }
  }
}

void Diagnosis::compareVariables() {
  std::set<std::string> names;
  for (const auto &host : hosts)
    for (const auto &[name, value] : factsOf(host).variables)
      names.insert(name);
  auto valueOn = [](const HostFacts &facts, const std::string &name) {
    auto found = facts.variables.find(name);
    return found == facts.variables.end() ? std::string("is not set")
                                          : "is '" + found->second + "'";
  };
  for (const std::string &name : names) {
    const HostFacts &first = factsOf(hosts[0]);
    for (const auto &host : hosts) {
      std::string here = valueOn(first, name),
                  there = valueOn(factsOf(host), name);
      if (here == there)
        continue;
      note(name + " " + here + " on " + first.host + " and " + there + " on " +
           factsOf(host).host + "; set it alike, unless that is meant");
      break;
    }
  }
}

void Diagnosis::lookAtListening(const HostFacts &facts) {
  auto asked = facts.variables.find("GLOO_SOCKET_IFNAME");
  const Interface *listens = interfaceOf(facts.interfaces, facts.listens);
  const Interface *reaches = interfaceOf(facts.interfaces, facts.reaches);
  if (asked != facts.variables.end() && !listens) {
    std::string names;
    for (const Interface &interface : facts.interfaces)
      if (!interface.addresses.empty())
        appendListed(names, interface.name);
    findings.push_back({connects ? Severity::Note : Severity::Problem,
                        "GLOO_SOCKET_IFNAME is '" + asked->second + "' on " +
                            facts.host +
                            ", whose interfaces with an address are " + names +
                            "; set it to " + wayOut(facts)});
    return;
  }
  if (hosts.size() == 1)
    return;
  if (!listens || listens->isLoopback)
    // Where the other side connects, that may go well.
    findings.push_back(
        {connects ? Severity::Note : Severity::Problem,
         facts.host + " listens for other hosts at " + facts.listens + " (" +
             (listens ? listens->name : "no interface") +
             "), which they cannot reach: " +
             (asked != facts.variables.end()
                  ? "GLOO_SOCKET_IFNAME says so"
                  : "that is the address of its name") +
             "; set GLOO_SOCKET_IFNAME=" + wayOut(facts) + " there"});
  else if (reaches && !reaches->isLoopback && reaches->name != listens->name)
    note(facts.host + " listens for other hosts on " + listens->name + " (" +
         facts.listens + ") and reaches the rendezvous by " + reaches->name +
         "; if that is not meant, set GLOO_SOCKET_IFNAME=" + reaches->name);
}

void Diagnosis::lookAtCores(const Hosts::value_type &host) {
  const HostFacts &facts = factsOf(host);
  double cores = facts.quota > 0 ? std::min<double>(facts.cores, facts.quota)
                                 : facts.cores;
  auto given = facts.variables.find("OMP_NUM_THREADS");
  int threads =
      given == facts.variables.end() ? 1 : std::atoi(given->second.c_str());
  if (static_cast<double>(host.size()) * std::max(threads, 1) <= cores)
    return;
  std::string text = formatText("%g %s", cores,
                                facts.quota > 0 && facts.quota < facts.cores
                                    ? "cores' worth of time (a cgroup's quota)"
                                    : "cores");
  note(std::to_string(host.size()) + (host.size() == 1 ? " rank" : " ranks") +
       (threads > 1 ? " of " + std::to_string(threads) + " threads" : "") +
       " on " + facts.host + " " +
       (host.size() == 1 && threads <= 1 ? "has" : "share") + " " + text +
       "; start fewer ranks" +
       (threads > 1 ? ", or lower OMP_NUM_THREADS" : ""));
}

void Diagnosis::lookAtHost(const Hosts::value_type &host) {
  const HostFacts &facts = factsOf(host);
  lookAtListening(facts);
  lookAtCores(host);
  if (facts.nccl.size() > 1)
    problem(facts.host + " has loaded two copies of NCCL, " + facts.nccl[0] +
            " and " + facts.nccl[1] +
            "; drop the one that LD_LIBRARY_PATH or LD_PRELOAD brings");
  if (facts.sharedMemory.total > 0 &&
      facts.sharedMemory.free < leastSharedMemory)
    note("/dev/shm of " + facts.host +
         " has less than 64 MiB free, and workers of PyTorch's loaders keep "
         "batches there; make it larger (docker run --shm-size=1g)");
  double seconds = host.front()->clockSeconds;
  if (std::abs(seconds) > mostClockSeconds) {
    std::string text = formatText("%.1f s %s", std::abs(seconds),
                                  seconds > 0 ? "ahead of" : "behind");
    note("the clock of " + facts.host + " is " + text + " that of " +
         factsOf(hosts[0]).host +
         ", so times in logs do not compare; set both (chrony, ntpd)");
  }
}

/// "ranks 0, 2".
std::string rankList(const std::vector<int> &numbers) {
  std::string list;
  for (int number : numbers)
    appendListed(list, std::to_string(number));
  return (numbers.size() == 1 ? "rank " : "ranks ") + list;
}

void Diagnosis::lookAtTransports() {
  for (size_t i = 0; i < ranks[0].transports.size(); ++i) {
    std::vector<int> failed;
    uint64_t reached = UINT64_MAX;
    for (const RankReport &rank : ranks) {
      if (i >= rank.transports.size() || rank.transports[i].error.empty())
        continue;
      failed.push_back(rank.rank);
      reached = std::min(reached, rank.transports[i].reached);
    }
    const TransportFigures &first = ranks[0].transports[i];
    if (failed.empty() || !first.isNeeded)
      continue;
    std::string error = ranks[failed.front()].transports[i].error, advice;
    if (reached == 0)
      advice = hosts.size() > 1
                   ? "; does a firewall let TCP through on all ports between "
                     "the hosts, and do they listen where others reach them?"
                   : "";
    else if (hosts.size() > 1)
      advice = ", though " + std::to_string(reached) + " bytes did; " +
               largePacketsAdvice;
    if (!advice.empty())
      error = error.substr(0, error.find("; ")); // without advice of its own
    problem("collectives over " + first.transport +
            (reached ? " did not end" : " cannot begin") + " on " +
            rankList(failed) + " (" + error + ")" + advice);
  }
}

void Diagnosis::lookAtLinks(const HostFacts &facts) {
  for (const Link &link : facts.links)
    if (link.lanes > 0 && link.lanes < link.mostLanes)
      note(link.kind + " " + link.name + " on " + facts.host + " has " +
           std::to_string(link.lanes) + " of its " +
           std::to_string(link.mostLanes) +
           " lanes of PCIe; is it in the right slot, and is the slot shared?");
}

void Diagnosis::lookForSlowRanks() {
  double fastest = 0;
  for (const RankReport &rank : ranks)
    fastest = std::max(fastest, rank.flops);
  for (const RankReport &rank : ranks) {
    if (!(rank.flops < slowPart * fastest))
      continue;
    std::string text = formatText(
        " computes %.1f GFLOP/s where the fastest rank has %.1f; does "
        "another program use its cores, or are they throttled?",
        rank.flops / 1e9, fastest / 1e9);
    note("rank " + std::to_string(rank.rank) + " on " + rank.facts.host + text);
  }
}

} // namespace

Hosts byHost(const std::vector<RankReport> &ranks) {
  Hosts hosts;
  for (const RankReport &rank : ranks) {
    auto same = std::find_if(hosts.begin(), hosts.end(), [&](const auto &host) {
      return host.front()->facts.machine == rank.facts.machine;
    });
    if (same == hosts.end())
      hosts.push_back({&rank});
    else
      same->push_back(&rank);
  }
  return hosts;
}

std::vector<Finding> diagnose(const std::vector<RankReport> &ranks) {
  return Diagnosis(ranks).run();
}

} // namespace fsdp::doctor
