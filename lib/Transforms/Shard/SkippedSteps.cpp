// Steps whose updates are skipped, since a gradient is not finite.

#include "Shard/SkippedSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

using namespace mlir;
using namespace fsdp;

Value fsdp::loadState(OpBuilder &builder, Location loc, StringRef name) {
  auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
      builder.getInsertionBlock()->getParentOp(), builder.getStringAttr(name));
  return LoadOp::create(builder, loc, state.getTensorType(), name);
}

FailureOr<Value> fsdp::skipUpdates(OpBuilder &builder, Location loc,
                                   ArrayRef<UpdateOp> updates) {
  FailureOr<Gradients> gradients = Gradients::collect(updates);
  if (failed(gradients))
    return failure();
  // The largest of all is infinite, or no number, where any is.
  Value largest = gradients->sumPowers(builder, loc,
                                       std::numeric_limits<double>::infinity(),
                                       CollectiveRole::Overflow);
  ScalarCalls scalars(builder, loc);
  Value finite = scalars.call("isfinite", largest, {}, builder.getI1Type());
  Value overflow =
      scalars.cast(scalars.call("logical_not", finite), builder.getF32Type());
  Operation *end = builder.getInsertionBlock()->getTerminator();
  for (UpdateOp update : updates) {
    update->moveBefore(end);
    update.getSkipMutable().assign(overflow);
  }
  return overflow;
}

LogicalResult fsdp::countSkippedStep(OpBuilder &builder, Location loc,
                                     func::FuncOp program, Value skipped) {
  ScalarCalls scalars(builder, loc);
  Value before = loadState(builder, loc, kSkippedStateName);
  Value count = scalars.call("add.Tensor", {before, skipped});
  StoreOp::create(builder, loc, count, kSkippedStateName);
  return addOutput(program, "skipped_steps", count);
}

LogicalResult fsdp::countDoneSteps(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isRule(function))
      continue;
    for (auto recurrence : function.getOps<RecurrenceOp>())
      return recurrence.emitOpError(
          "follows from each step before, and steps may be skipped, which "
          "nothing counts again; train without the scaler or non-finite=skip, "
          "or with another optimizer");
    function.walk([](StepCountOp count) {
      OpBuilder builder(count->getContext());
      builder.setInsertionPointAfter(count);
      Location loc = count.getLoc();
      Value skipped = StateValueOp::create(builder, loc, builder.getF64Type(),
                                           kSkippedStateName);
      auto done = arith::SubFOp::create(builder, loc, count, skipped);
      count.getResult().replaceAllUsesExcept(done, done);
    });
  }
  return success();
}
