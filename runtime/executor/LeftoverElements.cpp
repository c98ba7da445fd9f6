#include "executor/LeftoverElements.h"

#include <ATen/Version.h>
#include <algorithm>
#include <c10/util/accumulate.h>

namespace fsdp {

int64_t elementsAtATime(at::ScalarType dtype) {
  static const int64_t vectorBytes =
      at::get_cpu_capability() == "AVX512" ? 64 : 32;
  return 2 * vectorBytes / static_cast<int64_t>(c10::elementSize(dtype));
}

namespace {

/// A state and what a rank holds of it.
class HeldPart {
public:
  HeldPart(const plan::StateT &state, uint32_t shard)
      : state(state), first(state.shape.size()) {
    if (state.shard_dim >= 0)
      first[state.shard_dim] = shard * state.local_shape[state.shard_dim];
  }

  /// Where the rank holds the `index`-th element of the whole; -1: it does not.
  int64_t find(int64_t index) const {
    int64_t held = 0, stride = 1;
    for (size_t d = state.shape.size(); d-- > 0;) {
      int64_t at = index % state.shape[d] - first[d];
      if (at < 0 || at >= state.local_shape[d])
        return -1;
      held += at * stride;
      stride *= state.local_shape[d];
      index /= state.shape[d];
    }
    return held;
  }

private:
  const plan::StateT &state;
  std::vector<int64_t> first; // of the whole, by dimension
};

} // namespace

std::vector<ElementRange> leftoverElements(const plan::PlanT &plan,
                                           size_t index, uint32_t rank,
                                           int64_t atATime) {
  const plan::StateT &state = *plan.states.at(index);
  HeldPart part(state, plan::shardGroupOf(plan, rank).indexOf(rank));
  std::vector<ElementRange> ranges;
  auto addEnd = [&](int64_t begin, const std::vector<int64_t> &shape) {
    int64_t count = c10::multiply_integers(shape);
    size_t before = ranges.size(); // another state's
    for (int64_t i = count - count % atATime; i < count; ++i) {
      int64_t held = part.find(begin + i);
      if (held < 0)
        continue;
      if (ranges.size() > before && ranges.back().end == held)
        ++ranges.back().end;
      else
        ranges.push_back({held, held + 1});
    }
  };
  if (!state.is_flat)
    addEnd(0, state.shape);
  for (const auto &member : plan.states)
    if (member->flat == static_cast<int>(index))
      addEnd(member->flat_offset, member->shape);
  std::sort(ranges.begin(), ranges.end(),
            [](auto &a, auto &b) { return a.begin < b.begin; });
  return ranges;
}

} // namespace fsdp
