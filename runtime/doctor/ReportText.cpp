#include "doctor/ReportText.h"

#include "doctor/Json.h"
#include "plan/FormatText.h"

#include <cctype>
#include <cstdio>
#include <sys/resource.h>

namespace fsdp::doctor {

namespace {

std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    appendListed(text, part);
  return text;
}

std::string line(const char *name, const std::string &text) {
  return formatText("  %-13s ", name) + text + "\n";
}

std::string gibibytes(const Room &room) {
  return formatText("%.1f of %.1f GiB free", room.free / 0x1p30,
                    room.total / 0x1p30);
}

std::string limitText(uint64_t limit, const char *pattern, double unit) {
  return limit == RLIM_INFINITY ? "any number"
                                : formatText(pattern, limit / unit);
}

std::string describe(const Interface &interface) {
  std::string text = interface.name + " " + join(interface.addresses) +
                     " MTU " + std::to_string(interface.mtu);
  if (interface.megabits)
    text += formatText(" %g Gb/s", interface.megabits / 1e3);
  return text + (interface.isUp ? "" : " DOWN");
}

std::string interfacesText(const HostFacts &facts) {
  std::vector<std::string> parts;
  for (const Interface &interface : facts.interfaces)
    if (!interface.addresses.empty())
      parts.push_back(describe(interface));
  return join(parts);
}

/// A line for each kind of which there are some.
std::string linksText(const HostFacts &facts) {
  std::string text;
  for (const char *kind : {"GPU", "network", "RDMA"}) {
    std::vector<std::string> parts;
    for (const Link &link : facts.links)
      if (link.kind == kind)
        parts.push_back(link.text());
    if (!parts.empty())
      text += line((kind + std::string(" links")).c_str(), join(parts));
  }
  return text;
}

std::string hostText(const std::vector<const RankReport *> &ranks) {
  const HostFacts &facts = ranks.front()->facts;
  std::vector<std::string> numbers, gpus, speeds, variables;
  for (const RankReport *rank : ranks) {
    numbers.push_back(std::to_string(rank->rank));
    speeds.push_back(formatText("%.1f", rank->flops / 1e9));
    if (!rank->gpu.empty())
      gpus.push_back(rank->gpu);
  }
  for (const auto &[name, value] : facts.variables)
    variables.push_back(name + "=" + value);
  std::string text = facts.host + (ranks.size() == 1 ? " (rank " : " (ranks ") +
                     join(numbers) + ")\n";
  text += line("versions", "fsdp-run " + facts.version + ", PyTorch " +
                               facts.pytorch + ", " + facts.cuda);
  text +=
      line("NCCL", facts.nccl.empty() ? "none is loaded" : join(facts.nccl));
  text += line("system", facts.kernel + ", " + facts.processor);
  text += line("cores",
               formatText("%d of %d", facts.cores, facts.coresOfHost) +
                   (facts.quota > 0
                        ? formatText(", a cgroup's quota of %g", facts.quota)
                        : ""));
  text += line("memory", gibibytes(facts.memory) + "; /dev/shm " +
                             gibibytes(facts.sharedMemory));
  text +=
      line("limits", limitText(facts.lockable, "%.0f MiB", 0x1p20) +
                         " of locked memory, " +
                         limitText(facts.openFiles, "%.0f", 1) + " open files");
  text += line("GPUs", gpus.empty() ? "none" : join(gpus));
  text += line("interfaces", interfacesText(facts));
  text += linksText(facts);
  text += line("listens at", facts.listens.empty() ? "nowhere" : facts.listens);
  if (!facts.reaches.empty())
    text += line("goes out by", facts.reaches);
  if (ranks.front()->rank != 0)
    text += line("clock", formatText("%+.4f s to rank 0's, known to %.4f s",
                                     ranks.front()->clockSeconds,
                                     ranks.front()->clockUncertainty));
  text += line("computes", join(speeds) + " GFLOP/s by rank, in float32");
  text += line("variables",
               variables.empty() ? "none that matters" : join(variables));
  return text + "\n";
}

std::string transportsText(const std::vector<RankReport> &ranks) {
  const RankReport &first = ranks.front();
  if (first.transports.empty())
    return "1 rank: no collectives; --nproc N measures them\n";
  std::string text = formatText("%-16s %10s  %s\n", "collectives", "latency",
                                "GB/s that a rank gets from the others");
  for (size_t i = 0; i < first.transports.size(); ++i) {
    const TransportFigures &figures = first.transports[i];
    std::string error = figures.error;
    for (const RankReport &rank : ranks)
      if (error.empty() && i < rank.transports.size())
        error = rank.transports[i].error;
    text += formatText("  %-14s ", figures.transport.c_str());
    if (!error.empty()) {
      text += "not possible: " + error + "\n";
      continue;
    }
    std::vector<std::string> speeds;
    for (const Bandwidth &speed : figures.bandwidths)
      speeds.push_back(speed.kind +
                       formatText(" %.2f", speed.bytesPerSecond / 1e9));
    text +=
        formatText("%7.1f us  ", figures.latency * 1e6) + join(speeds) + "\n";
  }
  return text;
}

/// Members' names as JSON has them elsewhere: "bytesPerSecond" becomes
/// "bytes_per_second". Names of variables stay.
nlohmann::json snakeCase(const nlohmann::json &json) {
  if (!json.is_structured())
    return json;
  nlohmann::json result =
      json.is_array() ? nlohmann::json::array() : nlohmann::json::object();
  for (const auto &item : json.items()) {
    if (json.is_array()) {
      result.push_back(snakeCase(item.value()));
      continue;
    }
    std::string name;
    bool isOurs = !item.key().empty() && std::islower(item.key()[0]);
    for (char c : item.key())
      if (isOurs && std::isupper(c))
        (name += '_') += static_cast<char>(std::tolower(c));
      else
        name += c;
    result[name] = snakeCase(item.value());
  }
  return result;
}

const char *nameOf(Severity severity) {
  return severity == Severity::Problem ? "problem" : "note";
}

} // namespace

std::string reportText(const std::vector<RankReport> &ranks,
                       const std::vector<Finding> &findings,
                       const std::string &rendezvous) {
  auto hosts = byHost(ranks);
  std::string text = formatText(
      "%zu %s on %zu %s", ranks.size(), ranks.size() == 1 ? "rank" : "ranks",
      hosts.size(), hosts.size() == 1 ? "host" : "hosts");
  text += rendezvous.empty() ? "\n\n" : " met at " + rendezvous + "\n\n";
  for (const auto &host : hosts)
    text += hostText(host);
  text += transportsText(ranks) + "\n";
  for (const Finding &finding : findings)
    text += std::string(nameOf(finding.severity)) + ": " + finding.text + "\n";
  if (findings.empty())
    text += "nothing is wrong\n";
  return text;
}

std::string reportJson(const std::vector<RankReport> &ranks,
                       const std::vector<Finding> &findings,
                       const std::string &rendezvous) {
  nlohmann::json json = {{"rendezvous", rendezvous},
                         {"ranks", snakeCase(ranks)},
                         {"findings", nlohmann::json::array()}};
  for (const Finding &finding : findings)
    json["findings"].push_back(
        {{"severity", nameOf(finding.severity)}, {"text", finding.text}});
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

} // namespace fsdp::doctor
