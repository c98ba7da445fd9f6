#ifndef FSDP_RUNTIME_STATE_CHECKPOINTSHARDS_H
#define FSDP_RUNTIME_STATE_CHECKPOINTSHARDS_H

#include "data/SafeTensors.h"
#include "executor/Executor.h"
#include "state/StateMap.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::checkpoint {

/// Whether a state is part of a checkpoint: what a step changes or needs, apart
/// from constants, which stay in the weights, and gradients, which are nothing
/// between steps.
bool isStored(const plan::StateT &state);

/// Whether the compiler added a state to the model's: a file need not have it,
/// and without one it begins by its recipe.
bool isAdded(const plan::StateT &state);

/// The buffers that programs write, by state. Where ranks do so on their own,
/// each has its own value.
std::vector<bool> writtenBuffers(const plan::PlanT &plan);

/// What one rank writes of one tensor.
struct Shard {
  NamedState tensor;
  std::string parameter; // of optimizer state: its parameter's name
  size_t memory;         // of the map
  Part part;             // `local` counts in the rank's memory
  bool isPerRank;        // see StoredTensor
  uint64_t offset;       // of its first byte in the file
  int64_t bytes() const { return part.count() * tensor.elementBytes(); }
};

/// A copy of the shards that a rank is to write, taken between two steps, as
/// the safetensors file that it becomes. Every element of a tensor is in the
/// shard of exactly one rank: replicas divide what they hold.
class Shards {
public:
  /// Throws Error where safetensors has no name for a tensor's dtype.
  Shards(const plan::PlanT &plan, int rank);
  ~Shards();
  Shards(const Shards &) = delete;
  Shards &operator=(const Shards &) = delete;

  const std::vector<Shard> &list() const { return shards; }
  /// All of the file that stands before the data.
  const std::string &header() const { return layout.header(); }
  /// Of the file.
  uint64_t bytes() const { return layout.bytes(); }
  /// The file as of the last take(); it begins a page.
  const char *file() const { return copy; }
  /// The shard's elements in it, one after the other.
  const char *data(const Shard &shard) const { return copy + shard.offset; }

  /// Copies the executor's states. The memory for it is kept. Throws Error
  /// where there is none.
  void take(Executor &executor);

private:
  StateMap map;
  std::vector<Shard> shards; // by memory
  SafeTensorsLayout layout;
  char *copy = nullptr;
};

} // namespace fsdp::checkpoint

#endif // FSDP_RUNTIME_STATE_CHECKPOINTSHARDS_H
