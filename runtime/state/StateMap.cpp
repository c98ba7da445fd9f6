#include "state/StateMap.h"

namespace fsdp {

/// Its name in files. What state_dict() leaves out lies beside it under
/// another.
static std::string nameOf(const plan::StateT &state) {
  bool lost = state.role == plan::Role::Buffer && !state.persistent;
  const std::string prefix = "fsdp.buffer.";
  if (!lost || state.fqn.compare(0, prefix.size(), prefix) == 0)
    return state.fqn;
  return prefix + state.fqn;
}

StateMap::StateMap(const plan::PlanT &plan) : plan(plan) {
  std::vector<size_t> memoryOf(plan.states.size());
  for (size_t i = 0; i < plan.states.size(); ++i)
    if (plan.states[i]->flat < 0) {
      memoryOf[i] = all.size();
      all.push_back({i, {}});
    }
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StateT &state = *plan.states[i];
    if (!state.is_flat)
      all[memoryOf[state.flat < 0 ? i : state.flat]].tensors.push_back(
          {{nameOf(state), state.aliases, state.dtype, state.shape}, &state});
  }
}

std::vector<Run> Part::runs() const {
  std::vector<Run> runs;
  for (int64_t i = 0; i < repeat && length > 0; ++i)
    runs.push_back({whole + i * wholeStride, local + i * localStride, length});
  return runs;
}

/// Those elements of a member that lie in the `shard`-th piece of its flat
/// state.
static Part partOfMember(const plan::StateT &state, int64_t piece,
                         int64_t shard) {
  int64_t begin = state.flat_offset;
  int64_t end = begin + *plan::numElements(state.shape);
  int64_t first = shard * piece, last = first + piece;
  int64_t from = std::max(begin, first), to = std::min(end, last);
  if (from >= to)
    return {};
  return {from - begin, from - first, to - from};
}

Part StateMap::part(const NamedState &tensor, int rank) const {
  const plan::StateT &state = *tensor.state;
  int64_t shard = plan::shardGroupOf(plan, rank).indexOf(rank);
  if (state.flat >= 0)
    return partOfMember(state, plan.states[state.flat]->local_shape[0], shard);
  if (state.shard_dim < 0)
    return {0, 0, *plan::numElements(state.shape)};
  // A chunk of one dimension: a run for each index of the dimensions before it.
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < state.shape.size(); ++d)
    (static_cast<int>(d) < state.shard_dim ? outer : inner) *=
        static_cast<int>(d) == state.shard_dim ? 1 : state.shape[d];
  int64_t size = state.shape[state.shard_dim];
  int64_t piece = state.local_shape[state.shard_dim];
  int64_t begin = std::min(size, shard * piece);
  int64_t length = (std::min(size, begin + piece) - begin) * inner;
  if (length == 0 || outer == 0)
    return {};
  return {begin * inner, 0, length, outer, size * inner, piece * inner};
}

} // namespace fsdp
