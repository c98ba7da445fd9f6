// Moves ops of one block past each other, in the order of their operands.

#include "Overlap/CodeMotion.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

void fsdp::moveReadersBehind(ArrayRef<Value> values, Operation *anchor) {
  llvm::SmallPtrSet<Operation *, 16> moving;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp())
      moving.insert(op);
  Operation *last = anchor;
  for (Operation &op : llvm::make_early_inc_range(llvm::make_range(
           anchor->getBlock()->begin(), anchor->getIterator())))
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return moving.contains(operand.getDefiningOp());
        })) {
      moving.insert(&op);
      op.moveAfter(last);
      last = &op;
    }
}

void fsdp::hoist(Value value, Operation *anchor) {
  Operation *op = value.getDefiningOp();
  if (!op || !anchor->isBeforeInBlock(op))
    return;
  for (Value operand : op->getOperands())
    hoist(operand, anchor);
  op->moveBefore(anchor);
}
