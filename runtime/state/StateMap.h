#ifndef FSDP_RUNTIME_STATE_STATEMAP_H
#define FSDP_RUNTIME_STATE_STATEMAP_H

#include "plan/PlanTypes.h"

#include <algorithm>
#include <string>
#include <vector>

namespace fsdp {

/// A tensor as files have it: whole and row-major.
struct NamedTensor {
  std::string name;
  std::vector<std::string> aliases; // further names of a tied one
  plan::DType dtype;
  std::vector<int64_t> shape;

  int64_t elementBytes() const { return plan::dtypeBytes(dtype); }
};

/// `count` elements that lie one after the other both in a tensor, from its
/// element `whole` on, and in a rank's part of a memory, from `local` on.
struct Run {
  int64_t whole, local, count;
};

/// Elements of a tensor that a rank's part of a memory holds: `repeat` runs of
/// `length` elements, `wholeStride` apart in the tensor and `localStride` in
/// the memory.
struct Part {
  int64_t whole = 0, local = 0, length = 0;
  int64_t repeat = 1, wholeStride = 0, localStride = 0;

  int64_t count() const { return length * repeat; }
  /// In the order of `local`.
  std::vector<Run> runs() const;
};

/// A state as the tensor that it is in files.
struct NamedState : NamedTensor {
  const plan::StateT *state;
};

/// A state that has memory of its own, and the tensors whose elements lie in
/// it: its own one, or those of a flat state's members.
struct StateMemory {
  size_t state; // of the plan
  std::vector<NamedState> tensors;
};

/// Where the elements of a plan's states are: in the tensors of files, and in
/// the memory of each rank. What loads and saves states asks this and knows
/// nothing else of how they are cut. Made from the plan, which it refers to.
class StateMap {
public:
  explicit StateMap(const plan::PlanT &plan);

  /// In the plan's order.
  const std::vector<StateMemory> &memories() const { return all; }

  /// What a rank holds of a tensor; `local` counts in its part of the memory as
  /// row-major. Padding is not in it. Ranks in the same place of their shard
  /// groups are replicas: their parts are equal.
  Part part(const NamedState &tensor, int rank) const;

private:
  const plan::PlanT &plan;
  std::vector<StateMemory> all;
};

/// Calls `visit` with the parts of `runs` that are the elements `begin` to
/// `end` of all of them, one after the other.
template <typename Visit>
void forEachRun(const std::vector<Run> &runs, int64_t begin, int64_t end,
                Visit &&visit) {
  int64_t first = 0;
  for (const Run &run : runs) {
    int64_t from = std::max(begin, first) - first;
    int64_t to = std::min(end, first + run.count) - first;
    if (from < to)
      visit(Run{run.whole + from, run.local + from, to - from});
    first += run.count;
  }
}

} // namespace fsdp

#endif // FSDP_RUNTIME_STATE_STATEMAP_H
