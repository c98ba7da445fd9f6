#ifndef FSDP_RUNTIME_COMM_CLOCKOFFSETS_H
#define FSDP_RUNTIME_COMM_CLOCKOFFSETS_H

#include "comm/Communicator.h"

#include <functional>
#include <vector>

namespace fsdp {

/// A rank's clock beside rank 0's: what it shows more, in nanoseconds.
struct ClockOffset {
  int64_t nanoseconds = 0;
  int64_t uncertainty = 0; // the true offset is at most so far from it
};

/// A clock, and whose it is: ranks with the same host number read the same one.
/// 0: nobody else's.
struct HostClock {
  uint64_t host = 0;
  std::function<int64_t()> now; // nanoseconds
};

/// CLOCK_MONOTONIC of this machine.
HostClock hostClock();

/// The offset of each rank's clock, on every rank. Collective. Ranks of one
/// host read one clock, and have none; between hosts gathers bound the offset:
/// what a rank sends has been sent before it is received.
std::vector<ClockOffset> clockOffsets(Communicator &communicator,
                                      const HostClock &clock);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_CLOCKOFFSETS_H
