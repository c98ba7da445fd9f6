#ifndef FSDP_RUNTIME_COMM_COMMUNICATOR_H
#define FSDP_RUNTIME_COMM_COMMUNICATOR_H

#include "Error.h"
#include "device/ArenaMemory.h"
#include "plan/PlanTypes.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace fsdp {

class RankWatch;

/// Another rank, or the way to it, failed: what this rank reports is a
/// consequence, not the cause.
struct PeerFailure : std::runtime_error, Identified {
  explicit PeerFailure(const std::string &message, E kind = E::PeerFailed)
      : std::runtime_error(message), Identified(kind) {}
  /// Said behind it to people, and not to other ranks: which file tells more.
  std::string addition;
};

/// A collective in flight. `count` is the plan's: what one rank contributes to
/// an all-gather or an all-reduce, receives from a reduce-scatter, and has for
/// each rank in an all-to-all.
struct Transfer {
  plan::CollectiveKind kind{};
  const void *source = nullptr;
  void *destination = nullptr;
  size_t count = 0;
  plan::DType dtype{};
  /// A sum is divided by it, in `dtype`; 1: it is not.
  double divisor = 1;
  /// Transfers of one channel are carried out in the order of their starts.
  unsigned channel = 0;
  /// An all-gather into a window (see ArenaMemory): where the window shows the
  /// other ranks' memory nothing moves, and finish() says that all sources may
  /// be read there. A source may then be written once every rank has started a
  /// later transfer behind its last read; nothing waits for that by itself.
  bool mapped = false;
  /// Of a reduction. A maximum is not divided; NaN is larger than any number.
  plan::ReduceOp op = plan::ReduceOp::Sum;
  /// Those who take part, this rank among them; nothing: all. They start and
  /// finish it alike, and rank order is theirs.
  std::optional<plan::RankGroup> group = std::nullopt;
  /// What people call it: "all-gather of blocks.0 (forward)". Lives as long
  /// as the program.
  const char *name = "an agreement between steps";

  /// The same, of so many ranks in all.
  plan::RankGroup groupOf(uint32_t ranks) const {
    return group.value_or(plan::RankGroup{0, 1, ranks});
  }
};

/// Channels that a communicator has.
constexpr unsigned numChannels = 3;

/// What ranks say to each other. All ranks start the same transfers in the same
/// order, each within a group of its own where they have groups, and finish
/// them in the same order; starts and finishes of one channel come from one
/// thread at a time. Throws PeerFailure when a rank is gone.
///
/// A reduction is the sum in rank order 0, 1, ..., N-1, rounded to `dtype`
/// after every addition, then one division (or the maximum): the same bits for
/// every implementation and size.
class Communicator {
public:
  using Clock = std::chrono::steady_clock;

  virtual ~Communicator() = default;

  /// ncclCommUserRank
  virtual int rank() const = 0;

  /// ncclCommCount
  virtual int size() const = 0;

  /// Those who take part in a transfer.
  plan::RankGroup groupOf(const Transfer &transfer) const {
    return transfer.groupOf(static_cast<uint32_t>(size()));
  }

  /// The channel of a transfer that start() gave: its remainder by the number
  /// of channels, so that a channel's thread need not ask the others.
  static unsigned channelOf(uint64_t transfer) {
    return transfer % numChannels;
  }

  /// What carries the bytes, for people: "shared memory", "Gloo".
  virtual std::string transport() const = 0;

  /// ncclAllGather, ncclReduceScatter, ncclAllReduce on a stream of their own:
  /// starts a transfer and does not wait for other ranks, unless to connect
  /// with those of a new group (ncclCommSplit), or to compare with them the
  /// first transfer of its kind. Source and destination belong to it until
  /// finish(). In place where the destination of an all-gather holds the source
  /// at i * count, for the i-th of the group, that of a reduce-scatter is the
  /// source's part at i * count, and that of an all-reduce is the source.
  /// Throws Error for what has no sum or no maximum (see checkReduction());
  /// here or in finish(), where the ranks' transfers differ.
  virtual uint64_t start(const Transfer &transfer) = 0;

  /// cudaStreamWaitEvent: waits for a transfer. Its destination is complete and
  /// its source may be overwritten. Each is finished once, in the order of
  /// starts on its channel.
  virtual void finish(uint64_t transfer) = 0;

  /// When the last rank started a transfer that finish() has just waited for,
  /// where the communicator can tell.
  virtual std::optional<Clock::time_point>
  startedByAll(uint64_t transfer) const {
    return std::nullopt;
  }

  /// ncclMemAlloc: memory for this rank's arena, and a window onto all ranks'.
  /// Collective: every rank calls it with the same layout. Lives no longer than
  /// the communicator. Throws Error when there is no memory.
  virtual std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout) {
    return std::make_unique<PlainArenaMemory>(layout);
  }

  /// ncclCommAbort: this rank failed; wakes the others, whose pending and later
  /// calls throw PeerFailure.
  void abort(const std::string &reason) {
    leave("rank " + std::to_string(rank()) + " failed: " + reason);
  }
  /// The same, where `why` is the others' error: a sentence that says which
  /// rank failed first.
  virtual void leave(const std::string &why) = 0;

  /// Who knows where the ranks are; null: nobody.
  virtual RankWatch *watch() { return nullptr; }

  /// Throws PeerFailure when it is known already that a rank is gone. Waits for
  /// nobody.
  virtual void check() {}

  /// Transfers that are waited for at once, on channel 0.
  void allGather(const void *send, void *receive, size_t count,
                 plan::DType dtype,
                 std::optional<plan::RankGroup> group = std::nullopt);
  void reduceScatter(const void *send, void *receive, size_t count,
                     plan::DType dtype, double divisor = 1);
  void allReduce(const void *send, void *receive, size_t count,
                 plan::DType dtype, double divisor = 1,
                 plan::ReduceOp op = plan::ReduceOp::Sum);

  /// ncclBroadcast, in place, of a few values: gathers everybody's.
  void broadcast(void *buffer, size_t count, plan::DType dtype, int root);

  /// NCCL's idiom: an ncclAllReduce of one element.
  void barrier();
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_COMMUNICATOR_H
