// fsdp-clip-gradients.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

namespace fsdp {
#define GEN_PASS_DEF_CLIPGRADIENTS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// PyTorch's clip_grad_norm_ adds it to the norm.
constexpr double kEpsilon = 1e-6;

/// Writes what follows the gradients of one program: the norm of all of them.
class NormBuilder {
public:
  NormBuilder(OpBuilder &builder, double p) : builder(builder), p(p) {}

  /// The sum of |x|^p over the elements of some tensors, or the largest |x|.
  Value powerSum(ArrayRef<Value> tensors) {
    return aten::CallOp::create(
               builder, tensors.front().getLoc(), "fsdp_mlir::power_sum",
               tensors, {2 + int32_t(tensors.size())},
               builder.getDictionaryAttr(named("p", p)), scalar(64))
        ->getResult(0);
  }
  /// Of several such sums.
  Value join(Location loc, ArrayRef<Value> sums) {
    if (sums.size() == 1)
      return sums.front();
    auto type =
        RankedTensorType::get({int64_t(sums.size())}, builder.getF64Type());
    Value all = aten::CallOp::create(builder, loc, "stack", sums,
                                     {2 + int32_t(sums.size())},
                                     builder.getDictionaryAttr({}), type)
                    ->getResult(0);
    return call(loc, isLargest() ? "amax" : "sum", all, {}, scalar(64));
  }
  Value divide(Location loc, Value sum, double by) {
    return call(loc, "div.Scalar", sum, named("other", by), scalar(64));
  }
  Value allReduce(Location loc, Value sum, int64_t axis) {
    auto op = ReduceOpAttr::get(builder.getContext(),
                                isLargest() ? ReduceOp::Max : ReduceOp::Sum);
    return AllReduceOp::create(builder, loc, sum.getType(), op, sum,
                               /*unit=*/StringAttr(),
                               builder.getI64IntegerAttr(axis),
                               builder.getF64FloatAttr(1.0));
  }
  /// The norm of a sum, with the precision of the gradients.
  Value norm(Location loc, Value sum, unsigned bits) {
    if (p == 2)
      sum = call(loc, "sqrt", sum, {}, scalar(64));
    else if (p != 1 && !isLargest())
      sum = call(loc, "pow.Tensor_Scalar", sum, named("exponent", 1 / p),
                 scalar(64));
    return bits == 64 ? sum
                      : call(loc, "_to_copy", sum,
                             builder.getNamedAttr(
                                 "dtype", TypeAttr::get(builder.getF32Type())),
                             scalar(32));
  }
  /// min(most / (norm + 1e-6), 1), as PyTorch computes it.
  Value factor(Location loc, Value norm, double most) {
    Type type = norm.getType();
    Value x = call(loc, "add.Scalar", norm, named("other", kEpsilon), type);
    x = call(loc, "reciprocal", x, {}, type);
    x = call(loc, "mul.Scalar", x, named("other", most), type);
    return call(loc, "clamp", x, named("max", 1.0), type);
  }
  bool isLargest() const { return std::isinf(p); }

private:
  NamedAttribute named(StringRef name, double value) {
    return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
  }
  Type scalar(unsigned bits) {
    return RankedTensorType::get({}, bits == 64 ? Type(builder.getF64Type())
                                                : Type(builder.getF32Type()));
  }
  Value call(Location loc, StringRef callee, Value operand,
             ArrayRef<NamedAttribute> args, Type type) {
    auto call = aten::CallOp::create(builder, loc, callee, operand, args, type);
    call->setAttr("fsdp.phase", builder.getStringAttr("backward"));
    return call->getResult(0);
  }

  OpBuilder &builder;
  double p;
};

class ClipGradients : public fsdp::impl::ClipGradientsBase<ClipGradients> {
  void runOnOperation() override;
  LogicalResult clipByNorm(func::FuncOp program, ArrayRef<UpdateOp> updates,
                           double most, double p);
  void clipByValue(func::FuncOp rule, double most);
  remark::RemarkOpts remarkOn(StringRef name) {
    return remark::RemarkOpts::name(name).category("fsdp-clip-gradients");
  }
};

/// The grid's axes that the parameter's sharding uses.
SmallVector<int64_t> getAxes(StateOp parameter) {
  SmallVector<int64_t> axes;
  if (auto sharding = parameter.getSharding())
    for (shard::GridAxesAttr dim : sharding->getSplitAxes().getAxes())
      axes.append(dim.asArrayRef().begin(), dim.asArrayRef().end());
  return axes;
}

/// Behind the last of `values`.
void setInsertionPointBehind(OpBuilder &builder, Block &block,
                             ArrayRef<Value> values) {
  builder.setInsertionPointToStart(&block);
  Operation *last = nullptr;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp();
        op && (!last || last->isBeforeInBlock(op)))
      last = op;
  if (last)
    builder.setInsertionPointAfter(last);
}

/// Sums come right behind the gradients of each unit, the rest behind the last
/// sum; so most of them run while other units' gradients are on their way.
LogicalResult ClipGradients::clipByNorm(func::FuncOp program,
                                        ArrayRef<UpdateOp> updates, double most,
                                        double p) {
  SymbolTable table(getOperation());
  Block &block = program.getBody().front();
  // By unit: several updates may share a gradient, which counts once. What
  // each rank has whole is in no unit.
  llvm::MapVector<Attribute, llvm::SetVector<Value>> gradients;
  std::optional<SmallVector<int64_t>> axes; // of what is cut
  unsigned bits = 64;
  for (UpdateOp update : updates) {
    auto parameter = table.lookup<StateOp>(update.getParameter());
    SmallVector<int64_t> cut = getAxes(parameter);
    if (!cut.empty() && axes.value_or(cut) != cut)
      return update.emitOpError("of @")
             << update.getParameter()
             << " has a gradient that is cut over other axes of the mesh than "
                "those before it, so their norm has no one sum";
    if (!cut.empty())
      axes = cut;
    if (!update.getGradient().getType().getElementType().isF64())
      bits = 32;
    gradients[cut.empty() ? Attribute() : parameter.getUnitAttr()].insert(
        update.getGradient());
  }

  OpBuilder builder(&getContext());
  NormBuilder write(builder, p);
  SmallVector<Value> sums;
  int64_t pieces = 1;
  if (axes)
    for (int64_t axis : *axes)
      pieces *= getMesh(getOperation()).getShape()[axis];
  for (auto &[unit, values] : gradients) {
    setInsertionPointBehind(builder, block, values.getArrayRef());
    Value sum = write.powerSum(values.getArrayRef());
    // What each rank has whole counts once, not once per rank.
    if (!unit && pieces > 1 && !write.isLargest())
      sum = write.divide(sum.getLoc(), sum, pieces);
    sums.push_back(sum);
  }
  builder.setInsertionPoint(block.getTerminator());
  Location loc = NameLoc::get(builder.getStringAttr("clip_grad_norm"));
  Value all = write.join(loc, sums);
  if (axes)
    for (int64_t axis : *axes)
      if (getMesh(getOperation()).getShape()[axis] > 1)
        all = write.allReduce(loc, all, axis);
  Value norm = write.norm(loc, all, bits);
  // An infinite bound asks for the norm alone.
  Value factor = std::isinf(most) ? Value() : write.factor(loc, norm, most);
  for (UpdateOp update : updates) {
    update->moveBefore(block.getTerminator());
    if (factor)
      update.getScaleMutable().assign(factor);
  }

  auto name =
      builder.getNamedAttr("fsdp.output", builder.getStringAttr("grad_norm"));
  if (failed(program.insertResult(program.getNumResults(), norm.getType(),
                                  builder.getDictionaryAttr(name))))
    return failure();
  auto end = cast<func::ReturnOp>(block.getTerminator());
  end.getOperandsMutable().append(norm);
  remark::passed(program.getLoc(),
                 remarkOn("norm").function(program.getSymName()))
      << std::to_string(updates.size()) + " updates are scaled by the " +
             std::to_string(p) + "-norm of " +
             std::to_string(gradients.size()) + " units' gradients";
  return success();
}

/// Pointwise, so a part of the rule.
void ClipGradients::clipByValue(func::FuncOp rule, double most) {
  OpBuilder builder = OpBuilder::atBlockBegin(&rule.getBody().front());
  Value gradient = rule.getArgument(1);
  NamedAttribute args[] = {
      builder.getNamedAttr("min", builder.getF64FloatAttr(-most)),
      builder.getNamedAttr("max", builder.getF64FloatAttr(most))};
  auto clamp = aten::CallOp::create(builder, rule.getLoc(), "clamp", gradient,
                                    args, gradient.getType());
  gradient.replaceAllUsesExcept(clamp->getResult(0), clamp);
  remark::passed(rule.getLoc(), remarkOn("value"))
      << "rule \"" + rule.getSymName().str() + "\" clamps its gradient";
}

void ClipGradients::runOnOperation() {
  ModuleOp module = getOperation();
  auto norm = module->getAttrOfType<DenseF64ArrayAttr>(kClipNormAttrName);
  auto value = module->getAttrOfType<FloatAttr>(kClipValueAttrName);
  auto fail = [&](const Twine &message) {
    module.emitError(message);
    signalPassFailure();
  };
  if (!norm && !value)
    return;
  if (norm && (norm.size() != 2 || !(norm[0] > 0) || !(norm[1] >= 1)))
    return fail(kClipNormAttrName + Twine(" is not a norm above 0 and its "
                                          "type of at least 1"));
  if (value && !(value.getValueAsDouble() > 0))
    return fail(kClipValueAttrName + Twine(" is not a number above 0"));
  if (norm && value)
    return fail("gradients are clipped by norm and by value; choose one");
  bool clipped = false;
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<UpdateOp> updates(program.getOps<UpdateOp>());
    clipped |= !updates.empty();
    if (norm && !updates.empty() &&
        failed(clipByNorm(program, updates, norm[0], norm[1])))
      return signalPassFailure();
  }
  if (!clipped)
    return fail("gradients are to be clipped, but no program updates a "
                "parameter");
  if (value)
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr("fsdp.rule"))
        clipByValue(function, value.getValueAsDouble());
}

} // namespace
