// The ops that make a gradient the mean over all ranks.

#include "GradientReduction.h"
#include "GradientMean.h"

using namespace mlir;
using namespace fsdp;

/// The one reader of a sum, where it is such an op.
template <typename Op> static Op getOnlyReader(Operation *sum) {
  return sum->hasOneUse() ? dyn_cast<Op>(*sum->getUsers().begin()) : Op();
}

std::optional<GradientReduction>
GradientReduction::startingWith(Operation *op, int64_t ranks) {
  GradientReduction found;
  if ((found.overShards = dyn_cast<shard::ReduceScatterOp>(op))) {
    found.overReplicas = getOnlyReader<shard::AllReduceOp>(op);
  } else {
    found.overReplicas = dyn_cast<shard::AllReduceOp>(op);
    if (!found.overReplicas ||
        op->getOperand(0).getDefiningOp<shard::ReduceScatterOp>())
      return std::nullopt;
  }
  auto division = getOnlyReader<aten::CallOp>(found.getSum());
  Value sum = found.getSum()->getResult(0);
  double divisor = getGradientDivisors(sum.getType(), ranks).after;
  if (division && divisor != 1 && getDividend(division->getResult(0), divisor))
    found.division = division;
  return found;
}

Operation *GradientReduction::getFirst() {
  return overShards ? overShards.getOperation() : overReplicas.getOperation();
}

Operation *GradientReduction::getSum() {
  return overReplicas ? overReplicas.getOperation() : overShards.getOperation();
}

StringAttr GradientReduction::getUnit() {
  return getFirst()->getAttrOfType<StringAttr>("fsdp.unit");
}

Value GradientReduction::getResult() {
  return (division ? division.getOperation() : getSum())->getResult(0);
}

void GradientReduction::replaceWith(Value value) {
  getResult().replaceAllUsesWith(value);
  if (division)
    division->erase();
  if (overReplicas)
    overReplicas->erase();
  if (overShards)
    overShards->erase();
}
