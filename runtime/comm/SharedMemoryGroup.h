#ifndef FSDP_RUNTIME_COMM_SHAREDMEMORYGROUP_H
#define FSDP_RUNTIME_COMM_SHAREDMEMORYGROUP_H

#include "comm/ControlBlock.h"
#include "comm/Patience.h"
#include "comm/PeerWatch.h"
#include "comm/RankWatch.h"
#include "comm/SharedSegment.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace fsdp {

/// How a rank waits: it looks so often for what it awaits, then offers its CPU
/// to others between looks for so long, and then sleeps.
struct WaitPolicy {
  unsigned spins;
  std::chrono::microseconds yielding;
};

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
    unsigned spins = policy.load(std::memory_order_relaxed)->spins;
    for (unsigned i = 0; i < spins; ++i) {
      if (ready())
        return;
      relax();
    }
    awaitSlowly(awaited, ready);
  }

  /// Wakes those that sleep in await() on this channel.
  void announce(unsigned channel);

  /// `why`: what others report. From any thread; the first one counts.
  void fail(const std::string &why);
  /// Throws PeerFailure when a rank has failed.
  void checkFailures() const;
  /// Or died. A system call.
  void checkPeers() const;

  RankWatch &watch() { return *rankWatch; }

  const int rank, size;

private:
  using Clock = std::chrono::steady_clock;

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
  /// How many CPUs the ranks have together.
  double findCpus() const;
  /// By whether ranks are in each other's way, or something else in theirs.
  void choosePolicy(Clock::time_point now);

  std::vector<SharedSegment> segments; // by rank
  PeerWatch processes;
  Patience patience;
  std::unique_ptr<RankWatch> rankWatch;
  std::mutex failing;
  bool hasCpuForEach = false;
  std::atomic<const WaitPolicy *> policy = nullptr;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SHAREDMEMORYGROUP_H
