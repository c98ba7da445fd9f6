#include "state/SaveWeights.h"

#include "data/SafeTensors.h"
#include "state/RowMajorPart.h"
#include "state/StateMap.h"

#include <ATen/core/LegacyTypeDispatch.h>
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

static std::unique_ptr<SafeTensorsWriter> openFile(const StateMap &map,
                                                   const std::string &path) {
  std::vector<SafeTensorsWriter::Tensor> entries;
  for (const StateMemory &memory : map.memories())
    for (const NamedState *tensor : savedOf(memory))
      for (const std::string &name : namesOf(*tensor))
        entries.push_back({name, tensor->dtype, tensor->shape});
  return std::make_unique<SafeTensorsWriter>(path, std::move(entries));
}

void saveWeights(
    const plan::PlanT &plan, const std::string &path,
    Communicator &communicator, Executor &executor,
    const std::function<void(const std::string &)> &onPartialFile) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  StateMap map(plan);
  std::unique_ptr<SafeTensorsWriter> file;
  if (communicator.rank() == 0) {
    file = openFile(map, path);
    onPartialFile(file->partialPath());
  }
  plan::RankGroup shards = plan::shardGroupOf(plan, communicator.rank());
  // One memory at a time.
  for (const StateMemory &memory : map.memories()) {
    std::vector<const NamedState *> saved = savedOf(memory);
    if (saved.empty())
      continue;
    RowMajorPart part(executor, memory.state);
    bool cut = plan.states[memory.state]->shard_dim >= 0;
    std::vector<char> parts(cut ? shards.size * part.bytes() : 0);
    if (cut)
      communicator.allGather(part.data(), parts.data(), part.bytes(),
                             plan::DType::UInt8, shards);
    if (!file)
      continue;
    for (const NamedState *tensor : saved)
      for (uint32_t shard = 0; shard < (cut ? shards.size : 1); ++shard) {
        const char *from =
            cut ? parts.data() + shard * part.bytes() : part.data();
        int64_t size = tensor->elementBytes();
        for (const Run &run : map.runs(*tensor, shards[shard]))
          for (const std::string &name : namesOf(*tensor))
            file->write(name, run.whole * size, from + run.local * size,
                        run.count * size);
      }
  }
  if (file) {
    file->finish();
    onPartialFile("");
  }
}

} // namespace fsdp
