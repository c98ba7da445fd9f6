#ifndef FSDP_RUNTIME_STOPSIGNALS_H
#define FSDP_RUNTIME_STOPSIGNALS_H

#include <csignal>

namespace fsdp {

/// The signals that ask a run to end; SIGUSR1 is what SLURM sends some time
/// ahead of the end.
inline constexpr int stopSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

/// As under nohup: whoever started this process means it.
inline bool isIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

} // namespace fsdp

#endif // FSDP_RUNTIME_STOPSIGNALS_H
