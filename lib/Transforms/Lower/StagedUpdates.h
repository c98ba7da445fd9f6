// Parameters that are updated in a copy, where their optimizer states are.

#ifndef FSDP_LIB_TRANSFORMS_LOWER_STAGEDUPDATES_H
#define FSDP_LIB_TRANSFORMS_LOWER_STAGEDUPDATES_H

#include "fsdp/Transforms/Programs.h"

namespace fsdp {

/// C18, of a program of commands: what an update changes in lieu of a parameter
/// is a copy of it, and is copied back behind the last update. Fails with an
/// error at the op that is wrong.
mlir::LogicalResult verifyStagedUpdates(mlir::func::FuncOp program,
                                        mlir::SymbolTableCollection &symbols);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_LOWER_STAGEDUPDATES_H
