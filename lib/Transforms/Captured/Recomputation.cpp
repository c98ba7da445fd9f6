// Repeats forward's ops in backward.

#include "Captured/Recomputation.h"

#include "fsdp/Transforms/Programs.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fsdp;

/// The ops that `reader` needs and that have not been repeated yet, in order of
/// the program.
SmallVector<aten::CallOp> Recomputation::findMissing(Operation *reader) const {
  llvm::SetVector<aten::CallOp> missing;
  auto visit = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (!copies.contains(operand) && mustRepeat(operand))
        missing.insert(cast<aten::CallOp>(operand.getDefiningOp()));
  };
  visit(reader);
  for (size_t i = 0; i < missing.size(); ++i)
    visit(missing[i]);
  SmallVector<aten::CallOp> sorted = missing.takeVector();
  llvm::sort(sorted, [&](aten::CallOp a, aten::CallOp b) {
    return regions.getPosition(a) < regions.getPosition(b);
  });
  return sorted;
}

void Recomputation::setOperands(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    if (Value copy = copies.lookup(operand.get()))
      operand.set(copy);
}

void Recomputation::repeat(OpBuilder &builder, aten::CallOp call) {
  unsigned region = *regions.getRegion(call->getResult(0));
  auto copy = cast<aten::CallOp>(builder.clone(*call));
  copy.removeCheckpointAttr();
  copy.setBackward(true);
  copy.setRecompute(regions.getRegions()[region].name);
  setOperands(copy);
  for (auto [old, anew] : llvm::zip(call->getResults(), copy->getResults()))
    if (mustRepeat(old))
      copies[old] = anew;
  ++repeated[region];
}

void Recomputation::run(func::FuncOp program) {
  for (Operation &reader : llvm::make_early_inc_range(program.getOps())) {
    if (!isBackward(&reader))
      continue;
    OpBuilder builder(&reader);
    for (aten::CallOp call : findMissing(&reader))
      repeat(builder, call);
    setOperands(&reader);
  }
  // What forward computed for backward alone.
  if (!copies.empty())
    eraseDeadOps(program);
  // What the model asked for is done.
  for (auto call : program.getOps<aten::CallOp>()) {
    call.removeCheckpointAttr();
    call.setMustSave(false);
  }
}
