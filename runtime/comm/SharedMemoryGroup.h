#ifndef FSDP_RUNTIME_COMM_SHAREDMEMORYGROUP_H
#define FSDP_RUNTIME_COMM_SHAREDMEMORYGROUP_H

#include "comm/ControlBlock.h"
#include "comm/Patience.h"
#include "comm/PeerWatch.h"
#include "comm/RankWatch.h"
#include "comm/SharedSegment.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace fsdp {

/// The ranks of one host: their control blocks, and how one waits for another.
class SharedMemoryGroup {
public:
  /// Every rank calls it with the same store, whose keys nobody else uses.
  /// Throws Error, on all ranks alike, saying why they cannot share memory.
  SharedMemoryGroup(c10d::Store &store, int rank, int size,
                    const Patience &patience);

  ControlBlock &block(int r) const {
    return *reinterpret_cast<ControlBlock *>(segments[r].data());
  }

  /// Returns once `ready()`, which another rank makes true and then announces
  /// on the transfer's channel. Throws PeerFailure when a rank has failed or
  /// died, or when patience is at its end.
  template <typename Ready>
  void await(const AwaitedTransfer &awaited, const Ready &ready) {
    for (unsigned i = 0; i < spins; ++i) {
      if (ready())
        return;
      relax();
    }
    awaitSlowly(awaited, ready);
  }

  /// Wakes those that sleep in await() on this channel.
  void announce(unsigned channel);

  /// `why`: what others report.
  void fail(const std::string &why);
  /// Throws PeerFailure when a rank has failed.
  void checkFailures() const;
  /// Or died. A system call.
  void checkPeers() const;

  RankWatch &watch() { return *rankWatch; }

  const int rank, size;

private:
  /// Tells the CPU that this is a loop that waits.
  static void relax() {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }
  void awaitSlowly(const AwaitedTransfer &awaited,
                   const std::function<bool()> &ready);
  std::vector<std::string> exchange(c10d::Store &store, const std::string &what,
                                    const std::string &mine);
  bool isCrowded() const;

  std::vector<SharedSegment> segments; // by rank
  PeerWatch processes;
  Patience patience;
  std::unique_ptr<RankWatch> rankWatch;
  // How long to wait before the CPU is offered to others, and before sleeping.
  unsigned spins;
  std::chrono::microseconds yielding;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SHAREDMEMORYGROUP_H
