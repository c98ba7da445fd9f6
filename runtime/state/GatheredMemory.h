#ifndef FSDP_RUNTIME_STATE_GATHEREDMEMORY_H
#define FSDP_RUNTIME_STATE_GATHEREDMEMORY_H

#include "comm/Communicator.h"
#include "state/RowMajorPart.h"
#include "state/StateMap.h"

#include <vector>

namespace fsdp {

/// The parts that all ranks of a shard group have of a memory, on each of them.
/// Collective.
class GatheredMemory {
public:
  GatheredMemory(const plan::PlanT &plan, const StateMap &map,
                 const StateMemory &memory, Communicator &communicator,
                 Executor &executor)
      : map(map), shards(plan::shardGroupOf(plan, communicator.rank())),
        mine(executor, memory.state),
        isCut(plan.states[memory.state]->shard_dim >= 0),
        parts(isCut ? shards.size * mine.bytes() : 0) {
    if (isCut)
      communicator.allGather(mine.data(), parts.data(), mine.bytes(),
                             plan::DType::UInt8, shards);
  }

  /// Calls `visit(offset, from, bytes)` for what lies together of a tensor:
  /// `bytes` from byte `offset` of the whole, row-major tensor on.
  template <typename Visit>
  void forEachPart(const NamedState &tensor, Visit &&visit) {
    int64_t size = tensor.elementBytes();
    for (uint32_t shard = 0; shard < (isCut ? shards.size : 1); ++shard) {
      const char *from =
          isCut ? parts.data() + shard * mine.bytes() : mine.data();
      for (const Run &run : map.part(tensor, shards[shard]).runs())
        visit(run.whole * size, from + run.local * size, run.count * size);
    }
  }

private:
  const StateMap &map;
  const plan::RankGroup shards;
  RowMajorPart mine;
  const bool isCut;
  std::vector<char> parts;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATE_GATHEREDMEMORY_H
