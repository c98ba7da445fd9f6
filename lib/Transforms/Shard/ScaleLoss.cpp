// fsdp-scale-loss.

#include "Remarks.h"
#include "Shard/SkippedSteps.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"

#include "mlir/IR/TypeUtilities.h"

namespace fsdp {
#define GEN_PASS_DEF_SCALELOSS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class ScaleLoss : public fsdp::impl::ScaleLossBase<ScaleLoss> {
  void runOnModule() override;
  LogicalResult scaleLoss(func::FuncOp program);
  LogicalResult unscale(func::FuncOp program, ArrayRef<UpdateOp> updates);
};

/// Backward begins with the scale instead of with one.
LogicalResult ScaleLoss::scaleLoss(func::FuncOp program) {
  FailureOr<SmallVector<aten::CallOp>> cotangents = requireCotangents(program);
  if (failed(cotangents))
    return failure();
  for (aten::CallOp call : *cotangents) {
    OpBuilder builder(call->getContext());
    builder.setInsertionPointAfter(call);
    Value one = call->getResult(0);
    ScalarCalls scalars(builder, call.getLoc());
    Value scale = loadState(builder, call.getLoc(), kScaleStateName);
    // In float32 or wider; a float16 loss has no 65536.
    Type type = getElementTypeOrSelf(one);
    if (type.isF64())
      scale = scalars.cast(scale, type);
    Value product = scalars.call("mul.Tensor", {scale, one});
    Operation *first = product.getDefiningOp();
    Value cotangent = scalars.cast(product, type);
    one.replaceAllUsesExcept(cotangent, first);
  }
  return success();
}

/// What torch.amp.GradScaler's unscale_, step and update do.
LogicalResult ScaleLoss::unscale(func::FuncOp program,
                                 ArrayRef<UpdateOp> updates) {
  DictionaryAttr options = TrainingOp::of(program).getScalerAttr();
  OpBuilder builder(program.getBody().front().getTerminator());
  Location loc = NameLoc::get(builder.getStringAttr("scaler"));
  ScalarCalls scalars(builder, loc);
  FailureOr<Value> overflow = skipUpdates(builder, loc, updates);
  if (failed(overflow))
    return failure();

  builder.setInsertionPoint(updates.front());
  Value scale = loadState(builder, loc, kScaleStateName);
  Value inverse =
      scalars.call("reciprocal", scalars.cast(scale, builder.getF64Type()));
  inverse = scalars.cast(inverse, builder.getF32Type());
  for (UpdateOp update : updates)
    update.getScaleMutable().assign(inverse);

  builder.setInsertionPoint(program.getBody().front().getTerminator());
  Value tracker = loadState(builder, loc, kGrowthStateName);
  NamedAttribute factors[] = {
      builder.getNamedAttr("scale_growth_factor", options.get("growth_factor")),
      builder.getNamedAttr("scale_backoff_factor",
                           options.get("backoff_factor")),
      builder.getNamedAttr("growth_interval", options.get("growth_interval"))};
  auto next = aten::CallOp::create(
      builder, loc, aten::Direction::Backward, "_amp_update_scale",
      {scale, tracker, *overflow}, factors,
      TypeRange({scale.getType(), tracker.getType()}));
  StoreOp::create(builder, loc, next->getResult(0), kScaleStateName);
  StoreOp::create(builder, loc, next->getResult(1), kGrowthStateName);
  if (failed(addOutput(program, "loss_scale", scale)) ||
      failed(countSkippedStep(builder, loc, program, *overflow)))
    return failure();
  remarkPassed(R::ScaledLoss, program.getLoc(), program.getSymName())
      << "they are skipped where a gradient is not finite"
      << metrics::Updates(updates.size());
  return success();
}

void ScaleLoss::runOnModule() {
  ModuleOp module = getOperation();
  auto training = TrainingOp::of(module);
  if (!training || !training.getScaler())
    return;
  SymbolTable table(module);
  for (StringRef name : {kScaleStateName, kGrowthStateName, kSkippedStateName})
    if (!table.lookup<StateOp>(name)) {
      training.emitOpError("has a scaler, but no state @")
          << name << "; import the step again";
      return signalPassFailure();
    }
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<UpdateOp> updates = getUpdates(program);
    bool trains = !getCotangents(program).empty();
    if ((trains || !updates.empty()) && failed(scaleLoss(program)))
      return signalPassFailure();
    if (!updates.empty() && failed(unscale(program, updates)))
      return signalPassFailure();
  }
  if (failed(countDoneSteps(module)))
    signalPassFailure();
}

} // namespace
