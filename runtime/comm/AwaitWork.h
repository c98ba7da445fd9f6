#ifndef FSDP_RUNTIME_COMM_AWAITWORK_H
#define FSDP_RUNTIME_COMM_AWAITWORK_H

#include <chrono>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace fsdp {

/// Waits for a transfer of c10d's, and throws what it failed by. Calls `look`
/// so often meanwhile, which may throw.
template <typename Look>
void awaitWork(c10d::Work &work, std::chrono::milliseconds interval,
               Look look) {
  for (;;) {
    try {
      work.wait(interval);
      return;
    } catch (...) {
      // Of the interval's end, unless the transfer has ended. It may have done
      // so just now: then it says itself how.
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
