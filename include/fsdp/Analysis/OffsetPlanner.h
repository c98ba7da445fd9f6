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
  /// A multiple of 64 bytes for each block, in their order.
  llvm::SmallVector<int64_t> offsets;
  /// The size of the memory that holds all blocks.
  int64_t bytes = 0;
};

/// Gives every block bytes of its own.
OffsetPlan planApart(llvm::ArrayRef<LiveBlock> blocks);

/// Offsets such that no two blocks that are in use at one time share a byte, in
/// as few bytes as a search of bounded effort finds. Equal blocks give equal
/// offsets. The search ends early where a plan takes getPeakBytes().
///
/// It places blocks one after the other, in the order of time, of size, of
/// lifetime, and of their product, and then improves the best order by hill
/// climbing. A block goes into the tightest gap between those that are in use
/// with it. Where comparing all pairs of blocks would take seconds, it tries
/// only what takes n log n steps: the order of time, and stacking.
OffsetPlan planBest(llvm::ArrayRef<LiveBlock> blocks);

/// The largest sum of bytes in use at one time, each block rounded up to the 64
/// bytes that it keeps others from: no plan takes less.
int64_t getPeakBytes(llvm::ArrayRef<LiveBlock> blocks);

} // namespace fsdp

#endif // FSDP_ANALYSIS_OFFSETPLANNER_H
