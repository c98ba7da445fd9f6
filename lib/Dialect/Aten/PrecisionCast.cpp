// The casts that mixed precision asks for.

#include "fsdp/Dialect/Aten/PrecisionCast.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"

using namespace mlir;
using namespace fsdp;

bool aten::isPrecisionCast(Operation *op) {
  return op && kPrecisionCastAttr.isOn(op);
}

Value aten::createPrecisionCast(OpBuilder &builder, Location loc,
                                Direction direction, Value value,
                                Type elementType) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<NamedAttribute> args = {
      builder.getNamedAttr("dtype", TypeAttr::get(elementType))};
  // Else the cast keeps the strides.
  if (type.getEncoding())
    args.push_back(
        builder.getNamedAttr("memory_format", builder.getI64IntegerAttr(0)));
  auto call = CallOp::create(
      builder, loc, direction, "_to_copy", value, args,
      TypeRange(RankedTensorType::get(type.getShape(), elementType)));
  kPrecisionCastAttr.set(call);
  return call->getResult(0);
}

Value aten::lookThroughPrecisionCast(Value value) {
  Operation *op = value.getDefiningOp();
  return isPrecisionCast(op) ? op->getOperand(0) : value;
}
