#include "plan/check/StridedRanges.h"

#include <algorithm>
#include <tuple>
#include <utility>

using namespace fsdp::plan;

std::vector<StridedRange>
fsdp::plan::unionOf(std::vector<StridedRange> ranges) {
  auto key = [](const StridedRange &range) {
    return std::make_tuple(range.stride, range.blocks, range.offset);
  };
  std::sort(ranges.begin(), ranges.end(),
            [&](const StridedRange &a, const StridedRange &b) {
              return key(a) < key(b);
            });
  std::vector<StridedRange> joined;
  for (const StridedRange &range : ranges) {
    bool continues = !joined.empty() && joined.back().stride == range.stride &&
                     joined.back().blocks == range.blocks &&
                     range.offset <= joined.back().offset + joined.back().bytes;
    if (!continues) {
      joined.push_back(range);
      continue;
    }
    StridedRange &last = joined.back();
    last.bytes =
        std::max(last.offset + last.bytes, range.offset + range.bytes) -
        last.offset;
  }
  for (StridedRange &range : joined)
    if (range.blocks > 1 && range.bytes >= range.stride)
      range = StridedRange(range.offset, range.end() - range.offset, 1, 0);
  return joined;
}

/// From bytes of a stride to those of the value.
void TakenBytes::spread(uint64_t size, CheckingBudget &budget) {
  if (std::exchange(isSpread, true) || !stride)
    return;
  budget.keep(repeated.size() * (size / stride));
  stride = 0;
  ranges = DisjointRanges();
  for (const StridedRange &range : repeated)
    range.forEachBlock([&](uint64_t offset, uint64_t bytes) {
      ranges.add(offset, offset + bytes, 0);
    });
  repeated.clear();
}

bool TakenBytes::take(const StridedRange &range, uint64_t size,
                      CheckingBudget &budget) {
  if (!isSpread && repeats(range, size)) {
    stride = range.stride;
    repeated.push_back(range);
    return !ranges.add(range.offset, range.offset + range.bytes, 0);
  }
  spread(size, budget);
  if (range.blocks > 1)
    budget.keep(range.blocks);
  bool isNew = true;
  range.forEachBlock([&](uint64_t offset, uint64_t bytes) {
    isNew = isNew && !ranges.add(offset, offset + bytes, 0);
  });
  return isNew;
}

bool TakenBytes::has(const StridedRange &range, uint64_t size,
                     CheckingBudget &budget) {
  auto all = [&](uint64_t offset, uint64_t bytes) {
    return ranges.inside(offset, offset + bytes, [&] { budget.look(); }) ==
           bytes;
  };
  if (stride && repeats(range, size))
    return all(range.offset, range.bytes);
  spread(size, budget);
  budget.look(range.blocks);
  bool hasAll = true;
  range.forEachBlock([&](uint64_t offset, uint64_t bytes) {
    hasAll = hasAll && all(offset, bytes);
  });
  return hasAll;
}
