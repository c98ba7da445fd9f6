// How a module says what it trains with.

#ifndef FSDP_LIB_TARGET_TRAININGATTRIBUTES_H
#define FSDP_LIB_TARGET_TRAININGATTRIBUTES_H

#include "ArchiveMetadata.h"

#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Sets the attributes of a captured module that are of no program: source,
/// seed, mesh, learning rates, bounds of gradients, loss scale, micro-batches
/// and length. docs/ir.md lists them.
void setTrainingAttributes(mlir::ModuleOp module,
                           const ArchiveMetadata &metadata);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_TRAININGATTRIBUTES_H
