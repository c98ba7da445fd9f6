// What the axes of a module's mesh are for.

#ifndef FSDP_TRANSFORMS_MESH_H
#define FSDP_TRANSFORMS_MESH_H

#include "fsdp/Transforms/Programs.h"

namespace fsdp {

/// The axis of the grid over which states are cut, the last one, and its
/// size: into how many parts. Ranks along the axes in front of it are replicas.
int64_t getShardAxis(mlir::ModuleOp module);
int64_t getNumShards(mlir::ModuleOp module);
int64_t getNumReplicas(mlir::ModuleOp module);

/// The dimension on which a sharded state is split.
int64_t getShardDim(StateOp state);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_MESH_H
