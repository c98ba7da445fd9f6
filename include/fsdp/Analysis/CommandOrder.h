// What has happened when a command runs, and to which bytes.

#ifndef FSDP_ANALYSIS_COMMANDORDER_H
#define FSDP_ANALYSIS_COMMANDORDER_H

#include "mlir/Support/LogicalResult.h"
#include "plan/PlanTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>
#include <cstdint>
#include <map>

namespace fsdp {

constexpr uint32_t kNumStreams = std::size(plan::streamNames);

/// A command: the index-th of its stream, from 1. What is there from the start
/// of the program is command 0 of stream 0.
struct Moment {
  uint32_t stream = 0, index = 0;
};

/// Of each stream the last command that has happened, and so all before it.
using Clock = std::array<uint32_t, kNumStreams>;

/// Which commands have happened before others: those in front of them on their
/// stream, and what an event was recorded behind before a wait for it.
///
/// Ranks run the same program, and a collective does not end on one rank before
/// it has begun on all. So what follows a collective follows, on every rank,
/// what came before it.
class CommandOrder {
public:
  /// Takes the next command of `stream`.
  Moment launch(uint32_t stream);
  /// The next command of `stream` is a collective.
  void meet(uint32_t stream);
  /// False where the event was recorded before.
  bool record(uint64_t event, uint32_t stream);
  /// False where the event was not recorded.
  bool wait(uint64_t event, uint32_t stream);
  /// All streams have run out.
  void drain();

  /// Whether `moment` has happened for the last command of `stream`: on this
  /// rank, and on all ranks.
  bool follows(uint32_t stream, Moment moment) const {
    return moment.index <= known[stream].here[moment.stream];
  }
  bool followsEverywhere(uint32_t stream, Moment moment) const {
    return moment.index < known[stream].everywhere[moment.stream];
  }

private:
  /// `everywhere` counts one more than the last that has happened, so that 0 is
  /// not even the start of the program: other ranks may be in the one before.
  struct Knowledge {
    Clock here{}, everywhere{};
    void join(const Knowledge &other);
  };
  std::array<Knowledge, kNumStreams> known;
  llvm::DenseMap<uint64_t, Knowledge> events;
};

/// For every byte of an arena: whose it is, and who wrote and read it last.
class ByteTimeline {
public:
  static constexpr int64_t nobody = -1;
  struct Entry {
    int64_t owner = nobody;
    Moment written;
    Clock read{};
    bool operator==(const Entry &other) const;
  };

  /// The bytes [begin, end) are `owner`'s from now on.
  void write(uint64_t begin, uint64_t end, int64_t owner, Moment moment);
  void read(uint64_t begin, uint64_t end, Moment moment);
  /// Calls `visit` for each range of one history in [begin, end), until it
  /// fails.
  mlir::LogicalResult
  visit(uint64_t begin, uint64_t end,
        llvm::function_ref<mlir::LogicalResult(const Entry &)> visit) const;

private:
  struct Range {
    uint64_t end;
    Entry entry;
  };
  using Ranges = std::map<uint64_t, Range>; // by first byte; disjoint
  /// Cuts a range in two at `at`; returns the first that begins there or later.
  Ranges::iterator cut(uint64_t at);
  /// Makes one range of neighbours with one history.
  void joinAround(uint64_t begin, uint64_t end);

  Ranges ranges;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_COMMANDORDER_H
