#include "state/LoadWeights.h"

#include "Error.h"
#include "FlagOrArgument.h"
#include "state/CheckpointShards.h"
#include "state/InitialValues.h"
#include "state/RowMajorPart.h"
#include "state/WeightReader.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <algorithm>
#include <optional>

namespace fsdp {

/// State that is in no file of weights. It begins with zeros unless it has a
/// recipe, which it always follows.
static bool isTraining(const plan::StateT &state) {
  return state.role == plan::Role::Optimizer || checkpoint::isAdded(state);
}

/// A step's gradients begin with nothing.
static bool hasFirstValue(const plan::StateT &state, bool resumes) {
  if (resumes && checkpoint::isStored(state) && !checkpoint::isAdded(state))
    return false;
  return isTraining(state) ? !state.init.empty()
                           : state.role != plan::Role::Gradient;
}

size_t loadWeights(const plan::PlanT &plan, const StartOptions &options,
                   Communicator &communicator, Executor &executor,
                   const std::vector<WholeTensor> &others) {
  StateMap map(plan);
  std::vector<const NamedTensor *> stored, drawn;
  for (const StateMemory &memory : map.memories())
    for (const NamedState &tensor : memory.tensors)
      if (hasFirstValue(*tensor.state, options.resumes) &&
          !isTraining(*tensor.state))
        (tensor.state->init.empty() ? stored : drawn).push_back(&tensor);
  for (const WholeTensor &other : others)
    stored.push_back(&other);
  if (!stored.empty() && options.weights.empty())
    throw Error(E::WeightsMismatch,
                "the plan has no value for " + stored[0]->name +
                    (stored.size() > 1
                         ? " and " + std::to_string(stored.size() - 1) + " more"
                         : "") +
                    "; pass " +
                    flagOrArgument("--weights FILE", "weights=FILE"));
  std::optional<WeightReader> reader;
  if (!options.weights.empty()) {
    reader.emplace(options.weights, options.fromRank0, communicator);
    if (reader->hasAny(drawn)) {
      stored.insert(stored.end(), drawn.begin(), drawn.end());
      drawn.clear();
    }
    reader->check(stored);
  }

  at::AutoDispatchBelowADInplaceOrView noAutograd;
  auto fill = [&](const NamedState &tensor, char *local) {
    if (!tensor.state->init.empty() &&
        (isTraining(*tensor.state) || !drawn.empty())) {
      int64_t size = tensor.elementBytes();
      for (const Run &run : map.part(tensor, communicator.rank()).runs())
        computeInitialValues(*tensor.state, options.seed, run.whole, run.count,
                             local + run.local * size);
    } else {
      reader->read(
          tensor, [&](int rank) { return map.part(tensor, rank).runs(); },
          local);
    }
  };
  // One memory after the other: of what is not row-major it takes a copy.
  for (const StateMemory &memory : map.memories()) {
    auto begins = [&](const NamedState &tensor) {
      return hasFirstValue(*tensor.state, options.resumes);
    };
    if (std::none_of(memory.tensors.begin(), memory.tensors.end(), begins))
      continue;
    RowMajorPart part(executor, memory.state);
    for (const NamedState &tensor : memory.tensors)
      if (begins(tensor))
        fill(tensor, part.data());
    part.store();
  }
  for (const WholeTensor &other : others) {
    Run all{0, 0, *plan::numElements(other.shape)};
    reader->read(
        other, [&](int) { return std::vector<Run>{all}; }, other.data);
  }
  return drawn.size();
}

} // namespace fsdp
