// The ops that make a gradient the mean over all ranks.

#include "Overlap/GradientReduction.h"

using namespace mlir;
using namespace fsdp;

/// The one reader of a sum, where it is such an op.
template <typename Op> static Op getOnlyReader(Operation *sum) {
  return sum->hasOneUse() ? dyn_cast<Op>(*sum->getUsers().begin()) : Op();
}

std::optional<GradientReduction>
GradientReduction::startingWith(Operation *op, const GradientMeans &means) {
  GradientReduction found;
  if ((found.overShards = dyn_cast<shard::ReduceScatterOp>(op))) {
    Operation *sum = op;
    if (auto addition =
            aten::CallOp::getAccumulation(getOnlyReader<aten::CallOp>(op)))
      sum = addition;
    for (Operation *reader : sum->getUsers())
      if (auto overReplicas = dyn_cast<shard::AllReduceOp>(reader))
        found.overReplicas = overReplicas;
    if (found.overReplicas && sum != op)
      found.addition = cast<aten::CallOp>(sum);
  } else {
    found.overReplicas = dyn_cast<shard::AllReduceOp>(op);
    if (!found.overReplicas)
      return std::nullopt;
    Operation *source = op->getOperand(0).getDefiningOp();
    if (aten::CallOp::getAccumulation(source))
      source = source->getOperand(1).getDefiningOp();
    if (isa_and_nonnull<shard::ReduceScatterOp>(source))
      return std::nullopt;
  }
  auto division = getOnlyReader<aten::CallOp>(found.getSum());
  double divisor =
      means.get(found.getUnit(), found.getSum()->getResult(0).getType()).after;
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
  return cast<CollectiveOpInterface>(getFirst()).getUnitAttr();
}

Value GradientReduction::getResult() {
  return (division ? division.getOperation() : getSum())->getResult(0);
}

Value GradientReduction::addTo(Value sum) {
  addition->setOperand(1, sum);
  return addition->getResult(0);
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
