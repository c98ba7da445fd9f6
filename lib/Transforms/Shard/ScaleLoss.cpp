// fsdp-scale-loss.

#include "Shard/GradientNorms.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

namespace fsdp {
#define GEN_PASS_DEF_SCALELOSS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class ScaleLoss : public fsdp::impl::ScaleLossBase<ScaleLoss> {
  void runOnOperation() override;
  LogicalResult scaleLoss(func::FuncOp program);
  LogicalResult unscale(func::FuncOp program, ArrayRef<UpdateOp> updates);
  void countSteps(func::FuncOp rule);

  Value load(OpBuilder &builder, Location loc, StringRef name) {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
        getOperation(), builder.getStringAttr(name));
    return LoadOp::create(builder, loc, state.getTensorType(), name);
  }
};

/// Backward begins with the scale instead of with one.
LogicalResult ScaleLoss::scaleLoss(func::FuncOp program) {
  bool found = false;
  program.walk([&](aten::CallOp call) {
    if (!call->hasAttr("fsdp.cotangent"))
      return;
    found = true;
    OpBuilder builder(call->getContext());
    builder.setInsertionPointAfter(call);
    Value one = call->getResult(0);
    ScalarCalls scalars(builder, call.getLoc());
    Value scale = load(builder, call.getLoc(), kScaleStateName);
    // In float32 or wider; a float16 loss has no 65536.
    Type type = getElementTypeOrSelf(one);
    if (type.isF64())
      scale = scalars.cast(scale, type);
    Value product = scalars.call("mul.Tensor", {scale, one});
    Operation *first = product.getDefiningOp();
    Value cotangent = scalars.cast(product, type);
    one.replaceAllUsesExcept(cotangent, first);
  });
  if (found)
    return success();
  return program.emitError("has no op marked fsdp.cotangent, the gradient that "
                           "backward starts with; import the step again");
}

/// What torch.amp.GradScaler's unscale_, step and update do.
LogicalResult ScaleLoss::unscale(func::FuncOp program,
                                 ArrayRef<UpdateOp> updates) {
  FailureOr<Gradients> gradients = Gradients::collect(updates);
  if (failed(gradients))
    return failure();
  DictionaryAttr options = TrainingOp::of(program).getScalerAttr();
  Operation *end = program.getBody().front().getTerminator();
  OpBuilder builder(end);
  Location loc = NameLoc::get(builder.getStringAttr("scaler"));
  ScalarCalls scalars(builder, loc);
  Type f32 = builder.getF32Type(), f64 = builder.getF64Type();

  // The largest of all is infinite, or no number, where any is.
  Value largest = gradients->sumPowers(builder, loc,
                                       std::numeric_limits<double>::infinity(),
                                       CollectiveRole::Overflow);
  Value finite = scalars.call("isfinite", largest, {}, builder.getI1Type());
  Value overflow = scalars.cast(scalars.call("logical_not", finite), f32);

  Value scale = load(builder, loc, kScaleStateName);
  Value inverse = scalars.call("reciprocal", scalars.cast(scale, f64));
  inverse = scalars.cast(inverse, f32);
  for (UpdateOp update : updates) {
    update->moveBefore(end);
    update.getScaleMutable().assign(inverse);
    update.getSkipMutable().assign(overflow);
  }

  Value tracker = load(builder, loc, kGrowthStateName);
  NamedAttribute factors[] = {
      builder.getNamedAttr("scale_growth_factor", options.get("growth_factor")),
      builder.getNamedAttr("scale_backoff_factor",
                           options.get("backoff_factor")),
      builder.getNamedAttr("growth_interval", options.get("growth_interval"))};
  auto next = aten::CallOp::create(
      builder, loc, "_amp_update_scale", {scale, tracker, overflow}, factors,
      TypeRange({scale.getType(), tracker.getType()}));
  next->setAttr("fsdp.phase", builder.getStringAttr("backward"));
  Value skipped = load(builder, loc, kSkippedStateName);
  skipped = scalars.call("add.Tensor", {skipped, overflow});
  StoreOp::create(builder, loc, next->getResult(0), kScaleStateName);
  StoreOp::create(builder, loc, next->getResult(1), kGrowthStateName);
  StoreOp::create(builder, loc, skipped, kSkippedStateName);

  auto name =
      builder.getNamedAttr("fsdp.output", builder.getStringAttr("loss_scale"));
  if (failed(program.insertResult(program.getNumResults(), scale.getType(),
                                  builder.getDictionaryAttr(name))))
    return failure();
  cast<func::ReturnOp>(end).getOperandsMutable().append(scale);
  remark::passed(program.getLoc(), remark::RemarkOpts::name("scale")
                                       .category("fsdp-scale-loss")
                                       .function(program.getSymName()))
      << std::to_string(updates.size()) +
             " updates are skipped where a gradient is not finite";
  return success();
}

/// Steps that were skipped do not count: Adam's bias correction and SGD's first
/// step follow what was done.
void ScaleLoss::countSteps(func::FuncOp rule) {
  rule.walk([&](StepCountOp count) {
    OpBuilder builder(count->getContext());
    builder.setInsertionPointAfter(count);
    Location loc = count.getLoc();
    Value skipped = StateValueOp::create(builder, loc, builder.getF64Type(),
                                         kSkippedStateName);
    auto done = arith::SubFOp::create(builder, loc, count, skipped);
    count.getResult().replaceAllUsesExcept(done, done);
  });
}

void ScaleLoss::runOnOperation() {
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
    bool trains = program
                      .walk([](aten::CallOp call) {
                        return call->hasAttr("fsdp.cotangent")
                                   ? WalkResult::interrupt()
                                   : WalkResult::advance();
                      })
                      .wasInterrupted();
    if ((trains || !updates.empty()) && failed(scaleLoss(program)))
      return signalPassFailure();
    if (!updates.empty() && failed(unscale(program, updates)))
      return signalPassFailure();
  }
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr("fsdp.rule"))
      countSteps(function);
}

} // namespace
