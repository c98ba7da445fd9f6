// Offsets for blocks that come and go.

#include "fsdp/Analysis/OffsetPlanner.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <map>
#include <vector>

using namespace fsdp;

static constexpr int64_t alignment = 64;

static int64_t rounded(const LiveBlock &block) {
  return llvm::alignTo(static_cast<uint64_t>(block.bytes), alignment);
}

OffsetPlan fsdp::planOffsets(llvm::ArrayRef<LiveBlock> blocks, bool reuse) {
  OffsetPlan plan;
  plan.offsets.assign(blocks.size(), 0);
  if (!reuse) {
    for (auto [offset, block] : llvm::zip_equal(plan.offsets, blocks)) {
      offset = plan.bytes;
      plan.bytes += rounded(block);
    }
    return plan;
  }

  llvm::SmallVector<size_t> order;
  for (auto [i, block] : llvm::enumerate(blocks))
    if (block.bytes)
      order.push_back(i);
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return blocks[a].bytes > blocks[b].bytes;
  });

  // Blocks already placed, by offset. Scanned for every block, so kept in one
  // piece of memory: a step can have tens of thousands.
  struct Placed {
    int64_t offset, end;
    LiveBlock block;
  };
  std::vector<Placed> placed;
  placed.reserve(order.size());
  for (size_t i : order) {
    int64_t need = rounded(blocks[i]), end = 0, best = -1;
    int64_t bestGap = std::numeric_limits<int64_t>::max();
    for (const Placed &other : placed) {
      if (!blocks[i].overlaps(other.block))
        continue;
      int64_t gap = other.offset - end;
      if (gap >= need && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, other.end);
    }
    int64_t offset = best < 0 ? end : best;
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + need);
    auto at = llvm::upper_bound(placed, offset, [](int64_t o, const Placed &p) {
      return o < p.offset;
    });
    placed.insert(at, Placed{offset, offset + need, blocks[i]});
  }
  return plan;
}

int64_t fsdp::getPeakBytes(llvm::ArrayRef<LiveBlock> blocks) {
  std::map<int64_t, int64_t> changes;
  for (const LiveBlock &block : blocks) {
    changes[block.first] += rounded(block);
    changes[block.last + 1] -= rounded(block);
  }
  int64_t now = 0, peak = 0;
  for (auto [time, change] : changes)
    peak = std::max(peak, now += change);
  return peak;
}
