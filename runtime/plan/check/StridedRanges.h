// Blocks of bytes that lie a stride apart, as one thing: a bucket has a block
// for each of thousands of ranks, and a check that asks each costs a minute.
#ifndef FSDP_PLAN_CHECK_STRIDEDRANGES_H
#define FSDP_PLAN_CHECK_STRIDEDRANGES_H

#include "plan/check/CheckingBudget.h"

namespace fsdp::plan {

/// `blocks` blocks of `bytes`, `stride` apart, from `offset` on. Blocks that
/// touch are one block.
struct StridedRange {
  StridedRange(uint64_t offset, uint64_t bytes, uint64_t blocks,
               uint64_t stride)
      : offset(offset), bytes(bytes), blocks(blocks), stride(stride) {
    if (blocks == 1 || stride == bytes) {
      this->bytes = bytes * blocks;
      this->blocks = 1;
      this->stride = 0;
    }
  }
  /// Where the last block ends.
  uint64_t end() const { return offset + (blocks - 1) * stride + bytes; }
  /// Whether the blocks are the same bytes of each `stride` bytes of `size`.
  bool repeatsIn(uint64_t size) const {
    return blocks > 1 && offset + bytes <= stride && size % stride == 0 &&
           size / stride == blocks;
  }
  template <typename Fn> void forEachBlock(Fn fn) const {
    for (uint64_t b = 0; b < blocks; ++b)
      fn(offset + b * stride, bytes);
  }

  uint64_t offset, bytes, blocks, stride;
};

/// The fewest ranges that have the bytes of `ranges`, all of one value.
std::vector<StridedRange> unionOf(std::vector<StridedRange> ranges);

/// Bytes of a value of `size`, each of which may be taken once. What repeats is
/// kept as bytes of one stride, while all that is taken repeats alike.
class TakenBytes {
public:
  /// False where a byte was taken before.
  bool take(const StridedRange &range, uint64_t size, CheckingBudget &budget);
  /// Whether the range is what was taken at one time or several.
  bool has(const StridedRange &range, uint64_t size, CheckingBudget &budget);

private:
  bool repeats(const StridedRange &range, uint64_t size) const {
    return range.repeatsIn(size) && (!stride || stride == range.stride);
  }
  void spread(uint64_t size, CheckingBudget &budget);

  uint64_t stride = 0; // 0: blocks one by one
  bool isSpread = false;
  std::vector<StridedRange> repeated;
  DisjointRanges ranges; // in one stride, or in all of the value
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_STRIDEDRANGES_H
