// Verifiers and interfaces of the sharded phase.

#include "StateAccess.h"

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Mesh.h"

using namespace mlir;
using namespace fsdp;

LogicalResult UnitOp::verify() {
  if (std::optional<llvm::APFloat> divisor = getGradientDivisor();
      divisor && (!divisor->isFiniteNonZero() || divisor->isNegative()))
    return emitOpError() << "has a gradient_divisor of "
                         << getGradientDivisorAttr().getValueAsDouble()
                         << "; it is a number above 0";
  return success();
}

LogicalResult UnshardOp::verify() {
  if (getRegion() == ProgramRegion::Update)
    return emitOpError() << "is of the region update; it is forward or "
                            "backward, which read whole parameters";
  return success();
}

// accumulate

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto state = tables.lookupNearestSymbolFrom<StateOp>(*this, getStateAttr());
  if (!state || state.getRole() != Role::Gradient)
    return emitOpError() << "adds to " << getStateAttr()
                         << ", which is no gradient state";
  auto type = cast<RankedTensorType>(getValue().getType());
  if (type.getShape() != state.getTensorType().getShape() ||
      type.getElementType() != state.getTensorType().getElementType())
    return emitOpError() << "adds " << type << " to a state of "
                         << state.getType();
  return success();
}

void AccumulateOp::getEffects(Effects &effects) {
  addStateEffects(*this, effects);
}

SmallVector<FlatSymbolRefAttr> AccumulateOp::getReadStates() {
  return {getStateAttr()};
}
SmallVector<FlatSymbolRefAttr> AccumulateOp::getWrittenStates() {
  return {getStateAttr()};
}

// collectives and copies

SmallVector<int64_t> UnshardOp::getMeshAxes() {
  return Mesh(*this).getAxes(AxisRole::Shard);
}
SmallVector<int64_t> ReduceGradOp::getMeshAxes() {
  Mesh mesh(*this);
  SmallVector<int64_t> axes = mesh.getAxes(AxisRole::Shard);
  llvm::append_range(axes, mesh.getAxes(AxisRole::Replicate));
  return axes;
}

StringRef FetchOp::getStartName() { return FetchStartOp::getOperationName(); }
StringRef OffloadOp::getStartName() {
  return OffloadStartOp::getOperationName();
}
