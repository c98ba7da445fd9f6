// fsdp-localize.

#include "GradientMean.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

namespace fsdp {
#define GEN_PASS_DEF_LOCALIZE
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// The type with another number of rows.
RankedTensorType withRows(RankedTensorType type, int64_t rows) {
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = rows;
  return RankedTensorType::get(shape, type.getElementType());
}

class Localize : public fsdp::impl::LocalizeBase<Localize> {
  void runOnOperation() override;

  RankedTensorType getLocalType(RankedTensorType type) const {
    return withRows(type, getLocalRows(type.getDimSize(0), ranks));
  }
  RankedTensorType getPaddedType(RankedTensorType type) const {
    return withRows(type, ranks * getLocalRows(type.getDimSize(0), ranks));
  }

  LogicalResult check(func::FuncOp program, const SymbolTable &table);
  void gather(UnshardOp op);
  void reduce(ReduceGradOp op);

  int64_t ranks = 1;
  StringRef grid;
};

/// Readers of a sharded parameter would go on with a part of it, and its update
/// with a gradient that no other rank has added to.
LogicalResult Localize::check(func::FuncOp program, const SymbolTable &table) {
  auto isSharded = [&](StringRef name) {
    auto state = table.lookup<StateOp>(name);
    return state && state.getSharding() && !state.getGlobal();
  };
  WalkResult result = program.walk([&](Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op); load && isSharded(load.getState())) {
      for (Operation *reader : getReadersThroughCasts(load.getResult()))
        if (!isa<UnshardOp>(reader)) {
          reader->emitOpError("reads sharded @")
              << load.getState()
              << " without an fsdp.unshard; run --fsdp-insert-unshard first";
          return WalkResult::interrupt();
        }
    } else if (auto update = dyn_cast<UpdateOp>(op);
               update && isSharded(update.getParameter()) &&
               !getReduction(update)) {
      update.emitOpError("of sharded @")
          << update.getParameter()
          << " has a gradient that is not reduced; run "
             "--fsdp-insert-grad-reduction first";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

void Localize::gather(UnshardOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  RankedTensorType padded = getPaddedType(type);
  OpBuilder builder(op);
  auto gather = shard::AllGatherOp::create(
      builder, op.getLoc(), padded, FlatSymbolRefAttr::get(&getContext(), grid),
      builder.getDenseI16ArrayAttr({0}), op.getInput(),
      builder.getIndexAttr(0));
  gather->setAttr("fsdp.unit", op.getUnitAttr());
  gather->setAttr("fsdp.region", op.getRegionAttr());
  Value whole = gather.getResult();
  if (padded != type) {
    NamedAttribute args[] = {builder.getNamedAttr(
        "end", builder.getI64IntegerAttr(type.getDimSize(0)))};
    auto slice = aten::CallOp::create(builder, op.getLoc(), "slice.Tensor",
                                      whole, args, type);
    if (op.getRegion() == "backward")
      slice->setAttr("fsdp.phase", builder.getStringAttr("backward"));
    whole = slice->getResult(0);
  }
  op.replaceAllUsesWith(whole);
  op.erase();
}

/// Divides what is reduced; of a bucket each member, where it is computed.
Value divideBefore(OpBuilder &builder, Value gradient, double divisor) {
  auto pack = gradient.getDefiningOp<PackOp>();
  if (!pack)
    return createDivision(builder, gradient.getLoc(), gradient, divisor);
  OpBuilder::InsertionGuard guard(builder);
  for (OpOperand &member : pack->getOpOperands()) {
    builder.setInsertionPointAfterValue(member.get());
    member.set(
        createDivision(builder, member.get().getLoc(), member.get(), divisor));
  }
  return gradient;
}

void Localize::reduce(ReduceGradOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  RankedTensorType padded = getPaddedType(type), local = getLocalType(type);
  OpBuilder builder(op);
  StringAttr backward = builder.getStringAttr("backward");
  auto [before, after] = getGradientDivisors(type.getElementType(), ranks);
  Value gradient = divideBefore(builder, op.getInput(), before);
  if (padded != type) {
    // Pairs of (before, after), the last dimension first.
    SmallVector<int64_t> pad(2 * type.getRank(), 0);
    pad.back() = padded.getDimSize(0) - type.getDimSize(0);
    NamedAttribute args[] = {
        builder.getNamedAttr("pad", builder.getDenseI64ArrayAttr(pad))};
    auto call = aten::CallOp::create(builder, op.getLoc(), "constant_pad_nd",
                                     gradient, args, padded);
    call->setAttr("fsdp.phase", backward);
    gradient = call->getResult(0);
  }
  auto sum = shard::ReduceScatterOp::create(
      builder, op.getLoc(), local, FlatSymbolRefAttr::get(&getContext(), grid),
      builder.getDenseI16ArrayAttr({0}), gradient,
      shard::ReductionKindAttr::get(&getContext(), shard::ReductionKind::Sum),
      builder.getIndexAttr(0));
  sum->setAttr("fsdp.unit", op.getUnitAttr());
  op.replaceAllUsesWith(
      createDivision(builder, op.getLoc(), sum.getResult(), after));
  op.erase();
}

void Localize::runOnOperation() {
  ModuleOp module = getOperation();
  SymbolTable table(module);
  ranks = getNumRanks(module);
  if (shard::GridOp mesh = getMesh(module))
    grid = mesh.getSymName();

  for (func::FuncOp program : getPrograms(module))
    if (failed(check(program, table)))
      return signalPassFailure();
  for (StateOp state : module.getOps<StateOp>())
    if (state.getSharding() && state.getTensorType().getRank() == 0) {
      state.emitOpError("is a scalar, which has no rows to split; run "
                        "--fsdp-flatten-state first");
      return signalPassFailure();
    }
  for (StateOp state : module.getOps<StateOp>()) {
    if (!state.getSharding() || state.getGlobal())
      continue;
    RankedTensorType type = state.getTensorType();
    state.setGlobalAttr(TypeAttr::get(type));
    state.setType(getLocalType(type));
    remark::passed(
        state.getLoc(),
        remark::RemarkOpts::name("localize").category("fsdp-localize"))
        << "\"" + state.getSymName().str() +
               "\": " + std::to_string(getTensorBytes(type)) + " bytes, " +
               std::to_string(getTensorBytes(state.getTensorType())) +
               " per rank";
  }
  for (func::FuncOp program : getPrograms(module)) {
    program.walk([&](Operation *op) {
      if (auto unshard = dyn_cast<UnshardOp>(op))
        gather(unshard);
      else if (auto reduction = dyn_cast<ReduceGradOp>(op))
        reduce(reduction);
    });
    program.walk([&](LoadOp load) {
      if (auto state = table.lookup<StateOp>(load.getState()))
        load.getResult().setType(state.getTensorType());
    });
    // Those of parts are parts now.
    program.walk([&](aten::CallOp call) {
      if (aten::isPrecisionCast(call))
        call.getResult(0).setType(
            cast<RankedTensorType>(call.getResult(0).getType())
                .clone(cast<RankedTensorType>(call->getOperand(0).getType())
                           .getShape()));
    });
  }
}

} // namespace
