#include "state/LoadCheckpoint.h"

#include "Error.h"
#include "data/SafeTensorsFile.h"
#include "state/CheckpointReader.h"
#include "state/CheckpointShards.h"
#include "state/RowMajorPart.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace fsdp::checkpoint {

/// Whether a checkpoint has an entry for it: what has no element has none.
static bool hasEntry(const NamedState &tensor) {
  return isStored(*tensor.state) && *plan::numElements(tensor.shape) > 0;
}

static std::unordered_map<std::string, const StoredTensor *>
byName(const Manifest &manifest) {
  std::unordered_map<std::string, const StoredTensor *> stored;
  for (const StoredTensor &tensor : manifest.tensors)
    stored[tensor.name] = &tensor;
  return stored;
}

void checkFits(const plan::PlanT &plan, const Manifest &manifest,
               const std::string &name) {
  auto stored = byName(manifest);
  std::vector<std::string> problems;
  std::unordered_set<std::string> known;
  StateMap map(plan);
  for (const StateMemory &memory : map.memories())
    for (const NamedState &tensor : memory.tensors) {
      if (!hasEntry(tensor))
        continue;
      known.insert(tensor.name);
      auto found = stored.find(tensor.name);
      if (found == stored.end() && isAdded(*tensor.state))
        continue;
      if (found == stored.end())
        problems.push_back("it has no " + tensor.name);
      else if (found->second->dtype != tensor.dtype ||
               found->second->shape != tensor.shape)
        problems.push_back(
            tensor.name + " is " +
            fsdp::describe(found->second->dtype, found->second->shape) +
            ", the plan has " + fsdp::describe(tensor.dtype, tensor.shape));
    }
  for (const StoredTensor &tensor : manifest.tensors)
    if (!known.count(tensor.name))
      problems.push_back("the plan has no " + tensor.name);
  if (problems.empty())
    return;
  constexpr size_t shown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(shown, problems.size()); ++i)
    text += (i ? "; " : "") + problems[i];
  if (problems.size() > shown)
    text += "; and " + std::to_string(problems.size() - shown) + " more";
  throw Error(E::CheckpointMismatch,
              "checkpoint " + name + " does not fit the plan: " + text +
                  "; resume with the model and the optimizer that wrote it");
}

void loadCheckpoint(const plan::PlanT &plan, const std::string &folder,
                    const Manifest &manifest, int rank, Executor &executor) {
  auto stored = byName(manifest);
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  Reader reader(folder, manifest);
  StateMap map(plan);
  for (const StateMemory &memory : map.memories()) {
    auto isThere = [&](const NamedState &tensor) {
      return hasEntry(tensor) && stored.count(tensor.name);
    };
    if (std::none_of(memory.tensors.begin(), memory.tensors.end(), isThere))
      continue;
    // One memory at a time: of what is not row-major this takes a copy.
    RowMajorPart part(executor, memory.state);
    for (const NamedState &tensor : memory.tensors)
      if (isThere(tensor))
        reader.read(*stored.at(tensor.name), map.part(tensor, rank), rank,
                    part.data());
    part.store();
  }
}

} // namespace fsdp::checkpoint
