// Moves ops of one block past each other, in the order of their operands. Sound
// for what is pure, and for loads of what is not written in between.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_CODEMOTION_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_CODEMOTION_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace fsdp {

/// Moves `op` to another place of its block. Operation::moveBefore forgets the
/// order of all ops of a block, so that the next isBeforeInBlock numbers them
/// anew: a pass that moves and asks in turns grows with the block's square.
void moveTo(mlir::Operation *op, mlir::Block::iterator place);

/// Moves what depends on `values` and stands in front of `anchor` behind it.
void moveReadersBehind(llvm::ArrayRef<mlir::Value> values,
                       mlir::Operation *anchor);

/// Moves what computes `values` in front of `anchor`, where it stands behind
/// it.
void hoist(llvm::ArrayRef<mlir::Value> values, mlir::Operation *anchor);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_CODEMOTION_H
