#ifndef FSDP_RUNTIME_DATA_BATCHRING_H
#define FSDP_RUNTIME_DATA_BATCHRING_H

#include "comm/SharedSegment.h"
#include "data/SampleSource.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// Batches in memory that a loader's process shares with a rank: slots that
/// the loader fills in turn and the rank gives back (docs/data.md has the
/// bytes). Two eventfds, both semaphores, count what is ready and what is free;
/// this class is the memory, and waits for nobody.
class BatchRing {
public:
  /// What a slot holds. Counted from 0.
  struct Batch {
    int64_t epoch, number;
    /// The first sample with a NaN in it, and in which column; -1: none.
    int64_t nanColumn, nanSample;
    /// The worker that made it, and the number of that sample in the data set;
    /// -1: not known.
    int64_t nanWorker, nanSampleOfData;
    /// Which of the shapes it has.
    size_t variant;
    /// The loader's own, of where it is behind this batch, as text of its own;
    /// empty: it has none.
    std::string state;
  };
  /// For whom the ring is, as the loader is told.
  struct Reader {
    int rank, ranks;
    int64_t seed;
    /// Whether somebody wants the loader's state behind each batch.
    bool keepsStates = false;
  };

  static constexpr uint64_t slots = 4;

  /// `variants`: the columns of a batch, for each of the shapes that one may
  /// have. Throws Error where there is no memory.
  BatchRing(const std::vector<std::vector<Column>> &variants,
            const Reader &reader);

  int descriptor() const;
  uint64_t bytes() const { return memory.size(); }

  /// What the loader gives first; counts and kinds that make no sense are
  /// errors.
  struct Extent {
    int64_t batches; // of an epoch; -1: it has no end
  };
  Extent extent() const;
  /// Tells the loader where to start, before the first slot is free: at a
  /// batch, or, with a state that an earlier one of the same rank gave, behind
  /// that one's. Throws Error where there is no room for it.
  void start(int64_t epoch, int64_t batch, const std::string &state);

  /// The slot that becomes ready as number `count`, from 0. Throws Error where
  /// the loader filled another one.
  Batch at(uint64_t count) const;
  const char *column(uint64_t count, size_t column) const;

  /// What the loader left when it failed, or was asked; empty: nothing.
  std::string problem() const;
  /// The process that leaves where the loader is when it gets SIGUSR2; 0: none.
  int64_t answers() const;

private:
  char *slot(uint64_t count) const;

  SharedSegment memory;
  std::vector<uint64_t> offsets; // of columns in a slot
  const size_t variants;
  uint64_t slotBytes = 0, slotsBegin = 0;
  uint64_t stateBegin = 0; // in a slot; 0: there is no room for a state
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_BATCHRING_H
