// Moves ops of one block past each other, in the order of their operands.

#include "Overlap/CodeMotion.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

void fsdp::moveTo(Operation *op, Block::iterator place) {
  if (place == op->getIterator())
    return;
  Block *block = op->getBlock();
  op->remove();
  block->getOperations().insert(place, op);
}

void fsdp::moveReadersBehind(ArrayRef<Value> values, Operation *anchor) {
  llvm::SmallPtrSet<Operation *, 16> moving;
  Operation *first = anchor;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp()) {
      moving.insert(op);
      if (op->isBeforeInBlock(first))
        first = op;
    }
  // Nothing in front of the values reads them.
  Operation *last = anchor;
  for (Operation &op : llvm::make_early_inc_range(
           llvm::make_range(first->getIterator(), anchor->getIterator())))
    if (llvm::any_of(op.getOperands(), [&](Value operand) {
          return moving.contains(operand.getDefiningOp());
        })) {
      moving.insert(&op);
      moveTo(&op, std::next(last->getIterator()));
      last = &op;
    }
}

/// Adds what stands behind `anchor` of all that computes a value, operands
/// first.
static void collectBehind(Value value, Operation *anchor,
                          llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (!op || ops.contains(op) || !anchor->isBeforeInBlock(op))
    return;
  for (Value operand : op->getOperands())
    collectBehind(operand, anchor, ops);
  ops.insert(op);
}

void fsdp::hoist(ArrayRef<Value> values, Operation *anchor) {
  llvm::SetVector<Operation *> ops;
  for (Value value : values)
    collectBehind(value, anchor, ops);
  for (Operation *op : ops)
    moveTo(op, anchor->getIterator());
}
