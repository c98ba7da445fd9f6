#ifndef FSDP_TOOLS_FSDPRUN_COMMANDLINE_H
#define FSDP_TOOLS_FSDPRUN_COMMANDLINE_H

#include "cost/Cluster.h"
#include "session/OpenBackend.h"
#include "train/RunOptions.h"

#include <optional>
#include <string>

namespace fsdp {

/// Where the ranks are and how they meet.
struct LaunchOptions {
  int nproc = 0; // 0: not given
  bool threads = false;
  int nodes = 1, nodeRank = 0;
  std::string masterAddress = "127.0.0.1";
  int masterPort = 29500;
  std::string rendezvous; // empty: not given
  int meetingSeconds = 300;
  double patienceSeconds = 0; // 0: see deadlineOf()
  Transport transport = Transport::Auto;
  std::optional<cost::Link> throttle;
  BackendOptions backend;
  /// Where the supervisor that started this process looks for its error; empty:
  /// none did.
  std::string supervisor;
  /// What the driver says of its host, which has no ranks to start; empty:
  /// there are some.
  std::string declined;
  /// Who started this process shows its error when it has ended.
  bool isAwaited = false;

  /// Where the ranks meet.
  std::string meetingUrl() const {
    if (!rendezvous.empty())
      return rendezvous;
    return nodes > 1
               ? "tcp://" + masterAddress + ":" + std::to_string(masterPort)
               : "env://";
  }
};

struct CommandLine {
  std::string plan; // empty: --doctor
  bool doctor = false, doctorJson = false;
  /// Looks at the flags and ends: the plan need not be there. Of a device that
  /// the plan will be for, at the flags and GPUs that this needs.
  bool checksFlags = false;
  std::string device;
  /// The table to measure kernels into, in place of a run; empty: none.
  std::string tune;
  RunOptions run;
  LaunchOptions launch;
};

/// Returns the process's exit status instead of a command line when there is
/// nothing to run: after --help or --version, which it prints. Throws Error for
/// a mistake.
std::optional<int> parseCommandLine(int argc, char **argv, CommandLine &result);

/// Of a command line with a mistake what says where its ranks would meet;
/// nothing where the mistake is there.
std::optional<CommandLine> parseMeeting(int argc, char **argv);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_COMMANDLINE_H
