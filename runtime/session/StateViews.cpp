#include "session/StateViews.h"

#include "Error.h"
#include "device/ScalarType.h"
#include "state/GatheredMemory.h"
#include "state/RowMajorPart.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <algorithm>
#include <map>

namespace fsdp {

static bool isShown(const plan::StateT &state, bool withOptimizer) {
  return !state.is_flat &&
         (state.role == plan::Role::Parameter ||
          state.role == plan::Role::Buffer ||
          (withOptimizer && state.role == plan::Role::Optimizer));
}

/// The states' order is the plan's.
template <typename Item>
static void
sortByPlan(const plan::PlanT &plan,
           std::vector<std::pair<const plan::StateT *, Item>> &items) {
  std::map<const plan::StateT *, size_t> order;
  for (size_t i = 0; i < plan.states.size(); ++i)
    order[plan.states[i].get()] = i;
  std::sort(items.begin(), items.end(), [&](const auto &a, const auto &b) {
    return order.at(a.first) < order.at(b.first);
  });
}

/// By state: the buffer that counts the steps which gave a parameter no
/// gradient.
static std::map<const plan::StateT *, const plan::StateT *>
missedOf(const plan::PlanT &plan) {
  std::map<const plan::StateT *, const plan::StateT *> missed;
  auto note = [&](const plan::UpdateT &update, const plan::StateT *buffer) {
    for (size_t i = 0; i < plan.states.size(); ++i) {
      const plan::StateT &state = *plan.states[i];
      bool isMember = state.flat == int(update.parameter) &&
                      state.role == plan::Role::Parameter &&
                      (!update.end || (state.flat_offset >= update.begin &&
                                       state.flat_offset < update.end));
      if (i == update.parameter || isMember)
        missed[&state] = buffer;
    }
  };
  for (const auto &program : plan.programs)
    for (const auto &command : program->commands)
      if (const plan::UpdateT *update = command->operation.AsUpdate())
        if (int buffer = plan.rules[update->rule]->missed; buffer != -1)
          note(*update, plan.states[buffer].get());
  return missed;
}

/// The same elements, in a tensor that keeps their owner.
static at::Tensor keeping(const at::Tensor &tensor,
                          const std::shared_ptr<void> &owner) {
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [owner](void *) {},
      tensor.options(), /*target_device=*/tensor.device());
}

/// This rank's part of a state as one view, undefined where it is none.
static at::Tensor viewOf(const plan::PlanT &plan, const StateMap &map,
                         const NamedState &tensor, int rank,
                         const at::Tensor &memory) {
  const plan::StateT &state = *tensor.state;
  if (state.flat < 0) {
    if (state.shard_dim < 0)
      return memory;
    int64_t size = state.shape[state.shard_dim];
    int64_t piece = state.local_shape[state.shard_dim];
    int64_t shard = plan::shardGroupOf(plan, rank).indexOf(rank);
    int64_t begin = std::min(size, shard * piece);
    return memory.narrow(state.shard_dim, 0,
                         std::min(size, begin + piece) - begin);
  }
  // A range of a flat piece: of whole rows where one rank has all of it.
  if (plan::numShards(plan) > 1)
    return at::Tensor();
  Part part = map.part(tensor, rank);
  return memory.narrow(0, part.local, part.length).view(state.shape);
}

std::vector<StateView> stateViews(const plan::PlanT &plan, int rank,
                                  Executor &executor,
                                  std::shared_ptr<void> owner) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  StateMap map(plan);
  std::vector<std::pair<const plan::StateT *, StateView>> found;
  for (const StateMemory &memory : map.memories())
    for (const NamedState &tensor : memory.tensors) {
      const plan::StateT &state = *tensor.state;
      if (!isShown(state, /*withOptimizer=*/true))
        continue;
      StateView view;
      static_cast<NamedTensor &>(view) = tensor;
      view.role = state.role;
      view.persistent = state.persistent;
      view.trainable = state.trainable;
      if (state.parameter >= 0)
        view.parameter = plan.states[state.parameter]->fqn;
      view.shardDim = state.flat >= 0 ? 0 : state.shard_dim;
      at::Tensor local =
          viewOf(plan, map, tensor, rank, executor.state(memory.state));
      if (local.defined())
        view.local = keeping(local, owner);
      found.emplace_back(&state, std::move(view));
    }
  sortByPlan(plan, found);
  std::map<const plan::StateT *, std::string> names;
  for (const auto &[state, view] : found)
    names[state] = view.name;
  auto missed = missedOf(plan);
  std::vector<StateView> views;
  for (auto &[state, view] : found)
    if (auto it = missed.find(state); it != missed.end())
      view.missed = names[it->second];
  for (auto &[state, view] : found)
    views.push_back(std::move(view));
  return views;
}

NamedTensors wholeTensors(const plan::PlanT &plan, Communicator &communicator,
                          Executor &executor, bool flatAlone,
                          bool withOptimizer) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  using Named = std::pair<std::string, at::Tensor>;
  StateMap map(plan);
  std::vector<std::pair<const plan::StateT *, Named>> found;
  for (const StateMemory &memory : map.memories()) {
    bool isFlat = plan.states[memory.state]->is_flat;
    bool isWanted = std::any_of(memory.tensors.begin(), memory.tensors.end(),
                                [&](const NamedState &tensor) {
                                  return isShown(*tensor.state, withOptimizer);
                                });
    if (!isWanted || (flatAlone && !isFlat))
      continue;
    GatheredMemory gathered(plan, map, memory, communicator, executor);
    for (const NamedState &tensor : memory.tensors) {
      at::Tensor whole = at::empty(
          tensor.shape, at::TensorOptions(toScalarType(tensor.dtype)));
      char *to = static_cast<char *>(whole.data_ptr());
      gathered.forEachPart(
          tensor, [&](uint64_t offset, const char *from, uint64_t bytes) {
            std::copy(from, from + bytes, to + offset);
          });
      if (isShown(*tensor.state, withOptimizer))
        found.emplace_back(tensor.state, Named(tensor.name, whole));
    }
  }
  sortByPlan(plan, found);
  NamedTensors result;
  for (auto &[state, named] : found)
    result.push_back(std::move(named));
  return result;
}

void putWholeTensors(const plan::PlanT &plan, int rank, Executor &executor,
                     const NamedTensors &tensors) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  StateMap map(plan);
  auto given = [&](const NamedState &state) -> const at::Tensor * {
    for (const auto &[name, tensor] : tensors)
      if (name == state.name)
        return &tensor;
    return nullptr;
  };
  for (const StateMemory &memory : map.memories()) {
    if (std::none_of(memory.tensors.begin(), memory.tensors.end(), given))
      continue;
    RowMajorPart part(executor, memory.state);
    for (const NamedState &state : memory.tensors) {
      const at::Tensor *tensor = given(state);
      if (!tensor)
        continue;
      if (!tensor->is_contiguous() || !tensor->device().is_cpu() ||
          tensor->scalar_type() != toScalarType(state.dtype) ||
          tensor->sizes() != c10::IntArrayRef(state.shape))
        throw Error(E::RunState,
                    "the tensor for " + state.name +
                        " has not its state's dtype, shape and order");
      const char *from = static_cast<const char *>(tensor->const_data_ptr());
      int64_t size = state.elementBytes();
      for (const Run &run : map.part(state, rank).runs())
        std::copy(from + run.whole * size,
                  from + (run.whole + run.count) * size,
                  part.data() + run.local * size);
    }
    part.store();
  }
}

} // namespace fsdp
