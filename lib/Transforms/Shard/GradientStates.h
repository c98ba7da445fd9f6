// What verify-sharded asks of a step of several micro-batches.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_GRADIENTSTATES_H
#define FSDP_LIB_TRANSFORMS_SHARD_GRADIENTSTATES_H

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// S13: gradient states are added to in @accumulate alone; @step loads each
/// once, and then puts it back to -0.0. @accumulate sums over no replicas.
mlir::LogicalResult verifyGradientStates(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_GRADIENTSTATES_H
