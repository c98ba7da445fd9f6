// What a run trains with, from the archive.

#ifndef FSDP_LIB_TARGET_TRAININGIMPORT_H
#define FSDP_LIB_TARGET_TRAININGIMPORT_H

#include "ArchiveMetadata.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Says in the module, where `builder` is, what a run trains with: an
/// `fsdp.training`, and the learning rates as attributes of the module.
void importTraining(mlir::OpBuilder &builder, mlir::ModuleOp module,
                    const ArchiveMetadata &metadata);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_TRAININGIMPORT_H
