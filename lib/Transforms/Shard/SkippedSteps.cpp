// Steps whose updates are skipped, since a gradient is not finite.

#include "Shard/SkippedSteps.h"
#include "Shard/KeptBuffers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

using namespace mlir;
using namespace fsdp;

Value fsdp::loadState(OpBuilder &builder, Location loc, StringRef name) {
  auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
      builder.getInsertionBlock()->getParentOp(), builder.getStringAttr(name));
  return LoadOp::create(builder, loc, state.getTensorType(), name);
}

FlatSymbolRefAttr fsdp::getMissed(UpdateOp update) {
  auto rule = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      update, update.getRuleAttr());
  return rule ? kMissedAttr.get(rule) : FlatSymbolRefAttr();
}

Value fsdp::isZero(ScalarCalls &scalars, Value number) {
  Builder builder(number.getContext());
  auto zero = builder.getNamedAttr("other", builder.getF64FloatAttr(0.0));
  Value holds = scalars.call("eq.Scalar", number, zero, builder.getI1Type());
  return scalars.cast(holds, builder.getF32Type());
}

void fsdp::joinSkips(func::FuncOp last, func::FuncOp accumulate,
                     const IRMapping &values) {
  auto module = last->getParentOfType<ModuleOp>();
  OpBuilder builder(module.getContext());
  llvm::DenseMap<Value, Value> joined;
  for (UpdateOp update : getUpdates(last)) {
    Value own = update.getSkip();
    if (!own)
      continue;
    Location loc = own.getLoc();
    Value &skip = joined[own];
    if (!skip) {
      std::string name =
          plan::givenStatePrefix + std::to_string(joined.size() - 1);
      addZeroState(module, name, cast<RankedTensorType>(own.getType()));
      ScalarCalls scalars(builder, loc);
      // Whether a micro-batch so far, this one included, has a gradient.
      auto addSoFar = [&](Value lacks) {
        Value has = isZero(scalars, lacks);
        return scalars.call("maximum", {loadState(builder, loc, name), has});
      };
      builder.setInsertionPoint(accumulate.getBody().front().getTerminator());
      StoreOp::create(builder, loc, addSoFar(values.lookup(own)), name);
      builder.setInsertionPointAfterValue(own);
      Value has = addSoFar(own);
      StoreOp::create(builder, loc, scalars.call("mul.Scalar", has, "other", 0),
                      name);
      skip = isZero(scalars, has);
    }
    update.getSkipMutable().assign(skip);
  }
}

/// A step that is skipped as a whole is counted by itself, and by nobody else.
static void keepMissed(OpBuilder &builder, Location loc, Value skipped,
                       ArrayRef<UpdateOp> updates) {
  llvm::StringSet<> counts;
  for (UpdateOp update : updates)
    if (FlatSymbolRefAttr missed = getMissed(update))
      counts.insert(missed.getValue());
  ScalarCalls scalars(builder, loc);
  auto all = builder.getInsertionBlock()->getOps<StoreOp>();
  for (StoreOp store : SmallVector<StoreOp>(all)) {
    if (!counts.contains(store.getState()))
      continue;
    Value before = loadState(builder, loc, store.getState());
    Value isSkipped = scalars.cast(skipped, builder.getI1Type());
    auto kept = aten::CallOp::create(
        builder, loc, aten::Direction::Backward, "where.self",
        {isSkipped, before, store.getValue()}, {}, TypeRange(before.getType()));
    store.getValueMutable().assign(kept->getResult(0));
    store->moveAfter(kept);
  }
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
  llvm::DenseMap<Value, Value> both;
  for (UpdateOp update : updates) {
    Value own = update.getSkip();
    Value &skip = both[own];
    if (!skip)
      skip = own ? scalars.call("maximum", {overflow, own}) : overflow;
    update.getSkipMutable().assign(skip);
    update->moveBefore(end);
  }
  keepMissed(builder, loc, overflow, updates);
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
