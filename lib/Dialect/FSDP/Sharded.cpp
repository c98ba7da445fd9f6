// Verifiers of the sharded phase.

#include "fsdp/Dialect/FSDP/FSDP.h"

using namespace mlir;
using namespace fsdp;

LogicalResult UnshardOp::verify() {
  if (getRegion() != "forward" && getRegion() != "backward")
    return emitOpError() << "has the region \"" << getRegion()
                         << "\"; it is \"forward\" or \"backward\"";
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

void AccumulateOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), getStateAttr(),
                       StateResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), getStateAttr(),
                       StateResource::get());
}
