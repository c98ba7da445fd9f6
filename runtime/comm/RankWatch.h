#ifndef FSDP_RUNTIME_COMM_RANKWATCH_H
#define FSDP_RUNTIME_COMM_RANKWATCH_H

#include "comm/Patience.h"
#include "comm/RankStates.h"

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace c10d {
class Store;
}

namespace fsdp {

/// Lets ranks ask each other where they are, when one keeps another waiting. A
/// thread of each looks a few times a second whether there is a question, and
/// answers whatever the others do: so one that computes is told from one that
/// is stopped. Nothing is sent while nobody asks.
class RankWatch {
public:
  /// `store`: its keys are not used by others; it is kept.
  RankWatch(c10d::Store &store, int rank, int size, const Patience &patience);
  ~RankWatch();
  RankWatch(const RankWatch &) = delete;
  RankWatch &operator=(const RankWatch &) = delete;

  RankProgress &progress();
  const Patience &patience() const { return limits; }
  uint32_t worldSize() const { return static_cast<uint32_t>(size); }

  /// Tells people who keeps this rank waiting.
  void note(const AwaitedTransfer &awaited);
  /// Why this rank ends: it has waited for too long, or where `broken` says
  /// what was heard of a connection, that is lost. Waits a moment for answers.
  PeerFailure failure(const AwaitedTransfer &awaited,
                      const std::string &broken = "");

  /// Throws PeerFailure where one of them has failed, and said so: it will not
  /// come to what it has not begun.
  void requireComing(const plan::RankGroup &members);

  /// Which rank's failure ends this one, for the others: a whole sentence. The
  /// first one counts.
  void leaveWord(const std::string &sentence);
  /// Behind it, and behind what wakes the others: the store may go with this
  /// rank, which stays for a moment so that they can read the word there.
  void stay();

  /// What was heard when the others were asked last, and who was to blame.
  struct Heard {
    std::vector<RankState> states; // by rank; empty: nobody was asked
    std::vector<int> blamed;
  };
  /// Asks, where nobody has been asked: for one that ends.
  Heard hear();

private:
  class Thread;
  Heard lastHeard();
  Culprits ask(const AwaitedTransfer &awaited);
  double waitedFor(const AwaitedTransfer &awaited);

  const int rank, size;
  const Patience limits;
  std::shared_ptr<Thread> shared; // a thread that hangs outlives this
  std::thread thread;
  std::mutex mutex;
  Heard heard;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_RANKWATCH_H
