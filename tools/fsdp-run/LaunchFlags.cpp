// Which ranks there are, and how they talk to each other.

#include "FlagValidators.h"
#include "Flags.h"

#include <cmath>
#include <cstdio>

namespace fsdp {

/// "12.5" or "12.5,20".
static cost::Link parseLink(const std::string &text) {
  double bandwidth = 0, latency = 0;
  char rest = 0;
  int read =
      std::sscanf(text.c_str(), "%lf,%lf%c", &bandwidth, &latency, &rest);
  bool whole = read == 2 || (read == 1 && text.find(',') == std::string::npos);
  if (!whole || !(bandwidth > 0) || !(latency >= 0) ||
      !std::isfinite(bandwidth) || !std::isfinite(latency))
    throw CLI::ValidationError(
        "--throttle", "'" + text +
                          "' is not GB/s and microseconds, as in 10 or "
                          "10,20");
  return {bandwidth * 1e9, latency * 1e-6};
}

static void addCommFlags(CLI::App &app, LaunchOptions &launch) {
  app.add_option("--timeout", launch.patienceSeconds,
                 "seconds that a rank may keep the others waiting in a "
                 "collective before the run ends (default: 100 of the plan's "
                 "expected steps, at least 600)")
      ->check(secondsAboveZero())
      ->type_name("S")
      ->group(heading::ranks);
  static const std::map<std::string, Transport> named = [] {
    std::map<std::string, Transport> result;
    for (const TransportInfo &info : transports)
      result[info.name] = info.transport;
    return result;
  }();
  app.add_option_function<std::string>(
         "--comm",
         [&launch](const std::string &name) {
           launch.transport = named.at(name);
         },
         "shm, gloo, nccl or auto (default): shm where all ranks can share "
         "memory, else gloo; between GPUs nccl, or copies between threads")
      ->check(CLI::IsMember(named))
      ->type_name("KIND")
      ->group(heading::ranks);
  app.add_flag("--single-communicator", launch.backend.singleCommunicator,
               "NCCL: gathers and reductions share one communicator, and never "
               "run at once")
      ->group(heading::ranks);
  app.add_option_function<std::string>(
         "--throttle",
         [&launch](const std::string &text) {
           launch.throttle = parseLink(text);
         },
         "imitate a network: GB/s from each rank to the next, on each channel, "
         "and microseconds of latency (default: 0)")
      ->type_name("GBPS[,US]")
      ->group(heading::ranks);
}

static void addRankFlags(CLI::App &app, LaunchOptions &launch) {
  app.add_option("--nproc", launch.nproc, "start N ranks on this host")
      ->check(wholeNumber(1, mostRanks))
      ->type_name("N")
      ->group(heading::ranks);
  app.add_flag("--threads", launch.threads,
               "ranks are threads of this process, not processes")
      ->group(heading::ranks);
  app.add_option("--nnodes", launch.nodes, "hosts, each with --nproc ranks")
      ->check(wholeNumber(1, mostRanks))
      ->type_name("N")
      ->group(heading::ranks);
  app.add_option("--node-rank", launch.nodeRank, "which host this is, from 0")
      ->check(wholeNumber(0, mostRanks))
      ->type_name("N")
      ->group(heading::ranks);
  app.add_option("--master-addr", launch.masterAddress,
                 "host 0's address (default: 127.0.0.1)")
      ->type_name("HOST")
      ->group(heading::ranks);
  app.add_option("--master-port", launch.masterPort,
                 "a free port of host 0 (default: 29500)")
      ->check(wholeNumber(1, 65535))
      ->type_name("PORT")
      ->group(heading::ranks);
  app.add_option("--rendezvous", launch.rendezvous,
                 "where ranks that a launcher started meet: env://, "
                 "tcp://HOST:PORT or file:///PATH (default: env://)")
      ->type_name("URL")
      ->group(heading::ranks);
  app.add_option("--rendezvous-timeout", launch.meetingSeconds,
                 "seconds to wait for all ranks (default: 300)")
      ->check(wholeNumber(1, mostSeconds))
      ->type_name("S")
      ->group(heading::ranks);
  app.add_option_function<std::string>(
         "--host-streams",
         [&launch](const std::string &kind) {
           launch.backend.hostStreams = kind == "threads"
                                            ? HostStreamKind::Threads
                                            : HostStreamKind::Inline;
         },
         "how collectives run beside compute on the host: inline, or threads, "
         "one per stream (default: inline)")
      ->check(CLI::IsMember({"inline", "threads"}))
      ->type_name("KIND")
      ->group(heading::ranks);
  // The supervisor's own, for the ranks it starts.
  app.add_option("--supervisor", launch.supervisor)->group("");
  // The driver's, of a host that fails before there is a plan.
  app.add_option("--decline", launch.declined)->group("");
}

void addLaunchFlags(CLI::App &app, LaunchOptions &launch) {
  addRankFlags(app, launch);
  addCommFlags(app, launch);
}

} // namespace fsdp
