// What the axes of a module's mesh are for.

#include "fsdp/Transforms/Mesh.h"

using namespace mlir;

int64_t fsdp::getShardAxis(ModuleOp module) {
  shard::GridOp mesh = getMesh(module);
  return mesh ? mesh.getShape().size() - 1 : 0;
}

int64_t fsdp::getNumShards(ModuleOp module) {
  shard::GridOp mesh = getMesh(module);
  return mesh ? mesh.getShape().back() : 1;
}

int64_t fsdp::getNumReplicas(ModuleOp module) {
  return getNumRanks(module) / getNumShards(module);
}

int64_t fsdp::getShardDim(StateOp state) {
  return state.getSharding()->getSplitAxes().getAxes().size() - 1;
}
