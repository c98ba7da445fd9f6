// fsdp-skip-non-finite.

#include "Remarks.h"
#include "Shard/KeptBuffers.h"
#include "Shard/SkippedSteps.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

namespace fsdp {
#define GEN_PASS_DEF_SKIPNONFINITE
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class SkipNonFinite : public fsdp::impl::SkipNonFiniteBase<SkipNonFinite> {
  using SkipNonFiniteBase::SkipNonFiniteBase;
  void runOnModule() override;
  LogicalResult skip(func::FuncOp program, ArrayRef<UpdateOp> updates);
};

/// The program's loss; null: it has none.
Value getLoss(func::FuncOp program) {
  Operation *end = program.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(end->getOperands()))
    if (auto name = kOutputAttr.getOfResult(program, index);
        name && name == "loss")
      return value;
  return {};
}

/// Backward begins with 1 + (loss - loss), which is 1, or NaN where the loss is
/// not finite: then no gradient is, in whichever micro-batch and on whichever
/// rank that was.
void beginWithLoss(func::FuncOp program) {
  Value loss = getLoss(program);
  Operation *last = loss ? loss.getDefiningOp() : nullptr;
  for (aten::CallOp call : getCotangents(program)) {
    auto isBefore = [&](Operation *op) { return op->isBeforeInBlock(last); };
    if (!last || llvm::any_of(call->getUsers(), isBefore))
      return; // a gradient is looked at all the same
    if (isBefore(call))
      call->moveAfter(last);
    OpBuilder builder(call->getContext());
    builder.setInsertionPointAfter(call);
    ScalarCalls scalars(builder, call.getLoc());
    Value one = call->getResult(0);
    Value zero = scalars.call("sub.Tensor", {loss, loss});
    zero = scalars.cast(zero, getElementTypeOrSelf(one));
    Value begin = scalars.call("add.Tensor", {one, zero});
    one.replaceAllUsesExcept(begin, begin.getDefiningOp());
  }
}

/// Whether the program reads the state, or writes it once more, behind `store`.
bool isReadBehind(StoreOp store) {
  for (Operation *op = store->getNextNode(); op; op = op->getNextNode()) {
    auto load = dyn_cast<LoadOp>(op);
    auto other = dyn_cast<StoreOp>(op);
    if ((load && load.getState() == store.getState()) ||
        (other && other.getState() == store.getState()))
      return true;
  }
  return false;
}

LogicalResult SkipNonFinite::skip(func::FuncOp program,
                                  ArrayRef<UpdateOp> updates) {
  ModuleOp module = getOperation();
  SmallVector<StoreOp> stores(program.getOps<StoreOp>());
  Operation *end = program.getBody().front().getTerminator();
  OpBuilder builder(end);
  Location loc = NameLoc::get(builder.getStringAttr("skip_non_finite"));
  FailureOr<Value> skipped = skipUpdates(builder, loc, updates);
  if (failed(skipped))
    return failure();
  builder.setInsertionPoint(end);
  ScalarCalls scalars(builder, loc);
  KeptBuffers kept(module);
  Value isSkipped;
  for (StoreOp store : stores) {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
        module, store.getStateAttr());
    if (state.getRole() != Role::Buffer ||
        state.getSymName().starts_with(plan::missedStatePrefix))
      continue; // sums of gradients begin anew, and skipUpdates keeps the rest
    if (isReadBehind(store))
      return store.emitOpError("of @")
             << state.getSymName()
             << " is not the last access to it, so a skipped step cannot keep "
                "its value; store it once, at the end";
    if (!isSkipped)
      isSkipped = scalars.cast(*skipped, builder.getI1Type());
    Value before = kept.load(builder, loc, state);
    Value after = createRowMajor(builder, store.getValue());
    auto chosen = aten::CallOp::create(builder, loc, aten::Direction::Backward,
                                       "where.self", {isSkipped, before, after},
                                       {}, TypeRange(before.getType()));
    store.getValueMutable().assign(chosen->getResult(0));
    store->moveBefore(end);
  }
  kept.endStep(builder, loc);
  if (failed(countSkippedStep(builder, loc, program, *skipped)))
    return failure();
  remarkPassed(R::SkippedUpdates, program.getLoc(), program.getSymName())
      << "they are skipped where the loss or a gradient is not finite"
      << metrics::Updates(updates.size());
  return success();
}

void SkipNonFinite::runOnModule() {
  ModuleOp module = getOperation();
  auto training = TrainingOp::of(module);
  if (nonFinite != NonFinite::Skip || !training || training.getScaler())
    return;
  auto step = module.lookupSymbol<func::FuncOp>(plan::stepProgramName);
  if (step && getTurns(step).size() > 1) {
    step.emitError("non-finite=skip skips a whole step, and the step has "
                   "several turns, of which the first may have been made; "
                   "leave the option out, and train with --non-finite stop");
    return signalPassFailure();
  }
  bool counted = false;
  for (func::FuncOp program : getPrograms(module)) {
    beginWithLoss(program);
    SmallVector<UpdateOp> updates = getUpdates(program);
    if (updates.empty())
      continue;
    if (!counted) // a scaler would have one already
      addZeroState(
          module, kSkippedStateName,
          RankedTensorType::get({}, Float64Type::get(module.getContext())));
    counted = true;
    if (failed(skip(program, updates)))
      return signalPassFailure();
  }
  if (counted && failed(countDoneSteps(module)))
    signalPassFailure();
}

} // namespace
