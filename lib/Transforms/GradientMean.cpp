// The divisions that make a mean of a sum of gradients.

#include "GradientMean.h"

#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "fsdp/Dialect/FSDP/Mesh.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

static constexpr StringLiteral kDivision = "div.Scalar";

GradientMeans::GradientMeans(ModuleOp module)
    : ranks(static_cast<double>(Mesh(module).getNumRanks())) {
  for (UnitOp unit : module.getOps<UnitOp>())
    if (FloatAttr divisor = unit.getGradientDivisorAttr())
      own[unit.getUnitName()] = divisor.getValueAsDouble();
}

plan::GradientDivisors GradientMeans::get(StringAttr unit, Type type) const {
  auto found = unit ? own.find(unit.getValue()) : own.end();
  return plan::gradientDivisors(*aten::getDType(getElementTypeOrSelf(type)),
                                found == own.end() ? ranks : found->second);
}

Value fsdp::createDivision(OpBuilder &builder, Location loc, Value gradient,
                           double divisor) {
  if (divisor == 1)
    return gradient;
  NamedAttribute args[] = {
      builder.getNamedAttr("other", builder.getF64FloatAttr(divisor))};
  auto division =
      aten::CallOp::create(builder, loc, aten::Direction::Backward, kDivision,
                           gradient, args, gradient.getType());
  return division->getResult(0);
}

aten::CallOp fsdp::getDivision(Value value) {
  auto division = value.getDefiningOp<aten::CallOp>();
  return division && division.getCallee() == kDivision ? division
                                                       : aten::CallOp();
}

Value fsdp::getDividend(Value value, double divisor) {
  if (divisor == 1)
    return value;
  aten::CallOp division = getDivision(value);
  if (!division)
    return {};
  auto other = dyn_cast_or_null<FloatAttr>(division.getArg("other"));
  return other && other.getValueAsDouble() == divisor ? division->getOperand(0)
                                                      : Value();
}
