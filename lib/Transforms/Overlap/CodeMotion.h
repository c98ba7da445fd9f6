// Moves ops of one block past each other, in the order of their operands. Sound
// for what is pure, and for loads of what is not written in between.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_CODEMOTION_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_CODEMOTION_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace fsdp {

/// Moves what depends on `values` and stands in front of `anchor` behind it.
void moveReadersBehind(llvm::ArrayRef<mlir::Value> values,
                       mlir::Operation *anchor);

/// Moves what computes `values` in front of `anchor`, where it stands behind it.
void hoist(llvm::ArrayRef<mlir::Value> values, mlir::Operation *anchor);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_CODEMOTION_H
