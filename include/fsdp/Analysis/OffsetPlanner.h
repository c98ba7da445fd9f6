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

/// Offsets such that no two blocks that are in use at one time share a byte.
/// Largest first, each in the tightest gap between those already placed. With
/// `reuse` false every block has bytes of its own.
OffsetPlan planOffsets(llvm::ArrayRef<LiveBlock> blocks, bool reuse);

/// The most bytes in use at any time, each block rounded up to 64: what no
/// plan can be below.
int64_t getPeakBytes(llvm::ArrayRef<LiveBlock> blocks);

} // namespace fsdp

#endif // FSDP_ANALYSIS_OFFSETPLANNER_H
