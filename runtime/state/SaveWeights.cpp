#include "state/SaveWeights.h"

#include "Error.h"
#include "comm/Gather.h"
#include "data/SafeTensors.h"
#include "state/GatheredMemory.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <map>
#include <memory>

namespace fsdp {

/// Whether state_dict() has it.
static bool isSaved(const plan::StateT &state) {
  return state.role == plan::Role::Parameter ||
         (state.role == plan::Role::Buffer && state.persistent);
}

/// What state_dict() has of a memory's tensors.
static std::vector<const NamedState *> savedOf(const StateMemory &memory) {
  std::vector<const NamedState *> saved;
  for (const NamedState &tensor : memory.tensors)
    if (isSaved(*tensor.state))
      saved.push_back(&tensor);
  return saved;
}

static std::vector<std::string> namesOf(const NamedTensor &tensor) {
  std::vector<std::string> names = {tensor.name};
  names.insert(names.end(), tensor.aliases.begin(), tensor.aliases.end());
  return names;
}

uint64_t savedBytes(const plan::PlanT &plan) {
  uint64_t bytes = 0;
  StateMap map(plan);
  for (const StateMemory &memory : map.memories())
    for (const NamedState *tensor : savedOf(memory))
      bytes += namesOf(*tensor).size() * *plan::numElements(tensor->shape) *
               tensor->elementBytes();
  return bytes;
}

/// The order of tensors in the file is the plan's.
static std::unique_ptr<SafeTensorsWriter> openFile(const plan::PlanT &plan,
                                                   const StateMap &map,
                                                   const std::string &path) {
  std::map<const plan::StateT *, const NamedState *> saved;
  for (const StateMemory &memory : map.memories())
    for (const NamedState *tensor : savedOf(memory))
      saved[tensor->state] = tensor;
  std::vector<SafeTensorsWriter::Tensor> entries;
  for (const auto &state : plan.states)
    if (auto found = saved.find(state.get()); found != saved.end())
      for (const std::string &name : namesOf(*found->second))
        entries.push_back({name, state->dtype, state->shape});
  return std::make_unique<SafeTensorsWriter>(path, std::move(entries));
}

void saveWeights(
    const plan::PlanT &plan, const std::string &path,
    Communicator &communicator, Executor &executor,
    const std::function<void(const std::string &)> &onPartialFile) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  StateMap map(plan);
  std::unique_ptr<SafeTensorsWriter> file;
  std::string problem;
  // What fails on the way must not keep the others waiting.
  auto attempt = [&](auto &&call) {
    if (communicator.rank() != 0 || !problem.empty())
      return;
    try {
      call();
    } catch (const std::exception &error) {
      problem = error.what();
      file.reset();
    }
  };
  attempt([&] {
    file = openFile(plan, map, path);
    onPartialFile(file->partialPath());
  });
  // One memory at a time.
  for (const StateMemory &memory : map.memories()) {
    std::vector<const NamedState *> saved = savedOf(memory);
    if (saved.empty())
      continue;
    GatheredMemory gathered(plan, map, memory, communicator, executor);
    auto write = [&](const NamedState &tensor) {
      gathered.forEachPart(
          tensor, [&](uint64_t offset, const char *from, uint64_t bytes) {
            for (const std::string &name : namesOf(tensor))
              file->write(name, offset, from, bytes);
          });
    };
    for (const NamedState *tensor : saved)
      attempt([&] { write(*tensor); });
  }
  attempt([&] {
    file->finish();
    onPartialFile("");
  });
  problem = textOfRank0(communicator, problem);
  if (!problem.empty())
    throw Error(E::FileUnwritable, problem);
}

} // namespace fsdp
