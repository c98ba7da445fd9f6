// Rules of sharded states: of fsdp-verify-sharded.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_SHARDEDSTATES_H
#define FSDP_LIB_TRANSFORMS_SHARD_SHARDEDSTATES_H

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace fsdp {

/// Holds each state against S1 to S3, S9 and S10: its unit, its part, and its
/// place in a flat one. Every breach is an error.
mlir::LogicalResult verifyShardedStates(mlir::ModuleOp module,
                                        mlir::SymbolTable &table);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_SHARDEDSTATES_H
