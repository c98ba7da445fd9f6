#ifndef FSDP_RUNTIME_COMM_THROTTLEDCOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_THROTTLEDCOMMUNICATOR_H

#include "comm/Communicator.h"

#include <memory>

namespace fsdp {

/// A network to imitate.
struct Wire {
  double bytesPerSecond; // of each rank and channel
  double latencySeconds = 0;
};

/// Another communicator's results, as late as over `wire`: a transfer is on it
/// for the latency and (N-1)/N of its bytes at the bandwidth, from the moment
/// that the last rank started it and the channel's transfer before it is over.
/// Channels do not slow each other. Meanwhile the CPU is free: finish() sleeps
/// for what is left. What `inner` does itself must take less.
std::unique_ptr<Communicator>
createThrottledCommunicator(std::unique_ptr<Communicator> inner, Wire wire);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_THROTTLEDCOMMUNICATOR_H
