// Ranges of elements.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_ELEMENTRANGES_H
#define FSDP_LIB_TRANSFORMS_SHARD_ELEMENTRANGES_H

#include "mlir/Support/LLVM.h"

#include <map>

namespace fsdp {

/// Ranges of elements that do not overlap.
class ElementRanges {
public:
  /// Fails where another range has an element of [begin, end).
  mlir::LogicalResult add(int64_t begin, int64_t end) {
    if (begin >= end)
      return mlir::success(begin == end);
    auto next = ends.upper_bound(begin);
    if ((next != ends.begin() && std::prev(next)->second > begin) ||
        (next != ends.end() && next->first < end))
      return mlir::failure();
    ends[begin] = end;
    return mlir::success();
  }

private:
  std::map<int64_t, int64_t> ends; // by first element
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_ELEMENTRANGES_H
