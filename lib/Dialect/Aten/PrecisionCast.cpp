// The casts that mixed precision asks for.

#include "fsdp/Dialect/Aten/PrecisionCast.h"

using namespace mlir;
using namespace fsdp;

static constexpr llvm::StringLiteral kPrecisionCastAttrName =
    "fsdp.precision_cast";

bool aten::isPrecisionCast(Operation *op) {
  return op && op->hasAttr(kPrecisionCastAttrName);
}

Value aten::createPrecisionCast(OpBuilder &builder, Location loc, Phase phase,
                                Value value, Type elementType) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<NamedAttribute> args = {
      builder.getNamedAttr("dtype", TypeAttr::get(elementType))};
  // Else the cast keeps the strides.
  if (type.getEncoding())
    args.push_back(
        builder.getNamedAttr("memory_format", builder.getI64IntegerAttr(0)));
  auto call = CallOp::create(
      builder, loc, phase, "_to_copy", value, args,
      TypeRange(RankedTensorType::get(type.getShape(), elementType)));
  call->setAttr(kPrecisionCastAttrName, builder.getUnitAttr());
  return call->getResult(0);
}

Value aten::lookThroughPrecisionCast(Value value) {
  Operation *op = value.getDefiningOp();
  return isPrecisionCast(op) ? op->getOperand(0) : value;
}
