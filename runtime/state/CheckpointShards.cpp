#include "state/CheckpointShards.h"

#include "Error.h"
#include "device/HugePages.h"
#include "state/CheckpointFormat.h"
#include "state/RowMajorPart.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <cstring>
#include <optional>
#include <sys/mman.h>

namespace fsdp::checkpoint {

bool isStored(const plan::StateT &state) {
  return state.role == plan::Role::Parameter ||
         state.role == plan::Role::Optimizer ||
         state.role == plan::Role::Buffer;
}

bool isAdded(const plan::StateT &state) {
  return state.role == plan::Role::Buffer && !state.init.empty() &&
         state.fqn.rfind("fsdp.", 0) == 0;
}

std::vector<bool> writtenBuffers(const plan::PlanT &plan) {
  std::vector<bool> written(plan.states.size());
  for (const auto &program : plan.programs) {
    auto writes = [&](int64_t value) {
      int state = value < 0 ? -1 : program->values[value]->state;
      if (state >= 0 && plan.states[state]->role == plan::Role::Buffer)
        written[state] = true;
    };
    for (const auto &command : program->commands) {
      const plan::OperationUnion &operation = command->operation;
      if (const auto *call = operation.AsAten()) {
        for (int result : call->results)
          writes(result);
      } else if (const auto *copies = operation.AsCopy()) {
        for (const auto &piece : copies->pieces)
          writes(piece->destination);
      } else if (const auto *collective = operation.AsCollective()) {
        writes(collective->destination);
      }
    }
  }
  return written;
}

/// Whether each rank trains a parameter by its own gradients, or has what the
/// optimizer keeps of one: it belongs to no unit.
static bool isTrainedAlone(const plan::PlanT &plan, int index) {
  const plan::StateT &state = *plan.states[index];
  if (state.role == plan::Role::Optimizer)
    return state.parameter >= 0 && isTrainedAlone(plan, state.parameter);
  return state.role == plan::Role::Parameter && state.trainable &&
         state.unit == -1;
}

/// What the `replica`-th of so many ranks that hold the same part writes of it.
/// A large one is divided; a small one, or one that is no single run, is the
/// first one's.
static std::optional<Part> partOfReplica(const Part &part, int64_t elementBytes,
                                         int64_t replica, int64_t replicas) {
  constexpr int64_t smallBytes = 1 << 20;
  bool whole = part.repeat > 1 || part.count() * elementBytes < smallBytes;
  if (whole)
    return replica == 0 ? std::optional(part) : std::nullopt;
  int64_t begin = part.length * replica / replicas;
  int64_t end = part.length * (replica + 1) / replicas;
  if (begin == end)
    return std::nullopt;
  Part mine = part;
  mine.whole += begin;
  mine.local += begin;
  mine.length = end - begin;
  return mine;
}

/// What a rank writes, by memory. Where it lies in the file is not known yet.
static std::vector<Shard> shardsOf(const plan::PlanT &plan, const StateMap &map,
                                   int rank) {
  std::vector<Shard> shards;
  std::vector<bool> written = writtenBuffers(plan);
  int64_t ranks = plan::numRanks(plan), cut = plan::numShards(plan);
  for (size_t m = 0; m < map.memories().size(); ++m) {
    const StateMemory &memory = map.memories()[m];
    for (const NamedState &tensor : memory.tensors) {
      Part part = map.part(tensor, rank);
      if (!isStored(*tensor.state) || !part.count())
        continue;
      bool sharded = plan.states[memory.state]->shard_dim >= 0;
      bool isPerRank = !sharded && (written[memory.state] ||
                                    isTrainedAlone(plan, memory.state));
      std::optional<Part> mine = part;
      if (!isPerRank)
        mine = sharded
                   ? partOfReplica(part, tensor.elementBytes(), rank / cut,
                                   ranks / cut)
                   : partOfReplica(part, tensor.elementBytes(), rank, ranks);
      if (!mine)
        continue;
      int owner = tensor.state->parameter;
      bool isOwned = tensor.state->role == plan::Role::Optimizer && owner >= 0;
      shards.push_back({tensor, isOwned ? plan.states[owner]->fqn : "", m,
                        *mine, isPerRank, 0});
    }
  }
  return shards;
}

static SafeTensorsLayout layoutOf(const std::vector<Shard> &shards) {
  std::vector<SafeTensorsLayout::Tensor> tensors;
  for (const Shard &shard : shards)
    tensors.push_back({shard.tensor.name, shard.tensor.dtype,
                       shapeOfChunk(shard.part, shard.tensor.shape)});
  return SafeTensorsLayout(std::move(tensors));
}

Shards::Shards(const plan::PlanT &plan, int rank)
    : map(plan), shards(shardsOf(plan, map, rank)), layout(layoutOf(shards)) {
  for (Shard &shard : shards)
    shard.offset = layout.ranges().at(shard.tensor.name).begin;
}

Shards::~Shards() {
  if (copy)
    munmap(copy, bytes());
}

void Shards::take(Executor &executor) {
  if (!copy) {
    if (!(copy = mapAligned(bytes())))
      throw Error(E::OutOfMemory, "no memory for a copy of " +
                                      std::to_string(bytes()) +
                                      " bytes of state; use more ranks");
    std::memcpy(copy, header().data(), header().size());
  }
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  for (size_t i = 0; i < shards.size();) {
    size_t memory = shards[i].memory;
    // One memory at a time: of what is not row-major this takes a copy.
    RowMajorPart rows(executor, map.memories()[memory].state);
    for (; i < shards.size() && shards[i].memory == memory; ++i) {
      int64_t size = shards[i].tensor.elementBytes();
      char *to = copy + shards[i].offset;
      for (const Run &run : shards[i].part.runs()) {
        std::memcpy(to, rows.data() + run.local * size, run.count * size);
        to += run.count * size;
      }
    }
  }
}

} // namespace fsdp::checkpoint
