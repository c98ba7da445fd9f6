#ifndef FSDP_RUNTIME_STOPSIGNALS_H
#define FSDP_RUNTIME_STOPSIGNALS_H

#include <csignal>

namespace fsdp {

/// The signals that ask a run to end; SIGUSR1 is what SLURM sends some time
/// ahead of the end.
inline constexpr int stopSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

} // namespace fsdp

#endif // FSDP_RUNTIME_STOPSIGNALS_H
