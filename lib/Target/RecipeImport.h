#ifndef FSDP_LIB_TARGET_RECIPEIMPORT_H
#define FSDP_LIB_TARGET_RECIPEIMPORT_H

#include "ArchiveMetadata.h"

#include "mlir/IR/Builders.h"

namespace fsdp {

/// The recipe of a state as the attribute `init` of `fsdp.state`. Throws
/// ArchiveError where a step has other values than its kind takes.
mlir::ArrayAttr getRecipe(const StateInfo &info, mlir::OpBuilder &builder);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_RECIPEIMPORT_H
