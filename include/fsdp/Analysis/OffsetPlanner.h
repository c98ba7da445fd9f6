// Offsets for blocks of memory that come and go.

#ifndef FSDP_ANALYSIS_OFFSETPLANNER_H
#define FSDP_ANALYSIS_OFFSETPLANNER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace fsdp {

/// `bytes` that are in use from time `first` through time `last`, both
/// included.
struct LiveBlock {
  int64_t first = 0, last = 0;
  int64_t bytes = 0;

  bool overlaps(const LiveBlock &other) const {
    return first <= other.last && other.first <= last;
  }
};

struct OffsetPlan {
  /// In the order of the blocks, in bytes, multiples of 64.
  llvm::SmallVector<int64_t> offsets;
  /// Bytes that hold all blocks.
  int64_t bytes = 0;
};

/// Every block has bytes of its own.
OffsetPlan planApart(llvm::ArrayRef<LiveBlock> blocks);

/// Offsets such that no two blocks that are in use at one time share a byte,
/// in as few bytes as a fixed amount of search finds; the same for the same
/// blocks. Ends early at getPeakBytes().
///
/// It places blocks one after the other, in several orders: by time, by size,
/// by lifetime, by both; then it changes the best order here and there. A block
/// goes into the tightest gap between those that are in use with it. With so
/// many blocks that looking at all pairs takes seconds, only what takes
/// n log n steps is tried: by time, and on top of each other by lifetime.
OffsetPlan planBest(llvm::ArrayRef<LiveBlock> blocks);

/// The largest sum of bytes in use at one time, each block rounded up to the 64
/// bytes that it keeps others from: no plan takes less.
int64_t getPeakBytes(llvm::ArrayRef<LiveBlock> blocks);

} // namespace fsdp

#endif // FSDP_ANALYSIS_OFFSETPLANNER_H
