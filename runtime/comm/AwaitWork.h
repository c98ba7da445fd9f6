#ifndef FSDP_RUNTIME_COMM_AWAITWORK_H
#define FSDP_RUNTIME_COMM_AWAITWORK_H

#include <chrono>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace fsdp {

/// Waits for a transfer of c10d's, and throws what it failed by. Meanwhile it
/// calls `look`, which may throw, once in each interval.
template <typename Look>
void awaitWork(c10d::Work &work, std::chrono::milliseconds interval,
               Look look) {
  for (;;) {
    try {
      work.wait(interval);
      return;
    } catch (...) {
      // Thrown since the interval is over, or since the transfer failed. It may
      // also have ended just now, and well: so it is asked itself.
      if (work.isCompleted()) {
        work.wait();
        return;
      }
    }
    look();
  }
}

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_AWAITWORK_H
