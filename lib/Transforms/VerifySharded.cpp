// fsdp-verify-sharded.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/ADT/StringSet.h"

namespace fsdp {
#define GEN_PASS_DEF_VERIFYSHARDED
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class VerifySharded : public fsdp::impl::VerifyShardedBase<VerifySharded> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    table = &symbols;
    ranks = getNumRanks(module);
    bool ok = true;
    llvm::StringSet<> units;
    for (UnitOp unit : module.getOps<UnitOp>())
      units.insert(unit.getUnitName());
    for (StateOp state : module.getOps<StateOp>())
      ok &= succeeded(verifyState(state, units));
    for (func::FuncOp program : getPrograms(module))
      ok &= succeeded(verifyProgram(program));
    if (!ok)
      signalPassFailure();
  }

  LogicalResult verifyState(StateOp state, const llvm::StringSet<> &units);
  LogicalResult verifySharding(StateOp state);
  LogicalResult verifyProgram(func::FuncOp program);
  LogicalResult verifyLoad(LoadOp load);
  LogicalResult verifyUpdate(UpdateOp update);
  LogicalResult verifyGather(shard::AllGatherOp gather);

  StateOp getSharded(StringRef name) {
    auto state = table->lookup<StateOp>(name);
    return state && state.getSharding() ? state : StateOp();
  }

  SymbolTable *table = nullptr;
  int64_t ranks = 1;
};

LogicalResult VerifySharded::verifyState(StateOp state,
                                         const llvm::StringSet<> &units) {
  if (state.getRole() == Role::Parameter &&
      (!state.getUnit() || !units.contains(*state.getUnit())))
    return state.emitOpError("S1: the parameter belongs to no unit that "
                             "exists; run fsdp-assign-units");
  if (state.getSharding() && failed(verifySharding(state)))
    return failure();
  if (state.getRole() == Role::Optimizer) {
    auto parameter = table->lookup<StateOp>(*state.getParameter());
    if (!parameter || parameter.getSharding() != state.getSharding())
      return state.emitOpError()
             << "S3: optimizer state is not split as its parameter "
             << state.getParameterAttr();
  }
  return success();
}

LogicalResult VerifySharded::verifySharding(StateOp state) {
  auto axes = state.getSharding()->getSplitAxes().getAxes();
  bool rows = axes.size() == 1 && axes[0].asArrayRef() == ArrayRef<int16_t>{0};
  if (!rows ||
      !table->lookup<shard::GridOp>(state.getSharding()->getGrid().getValue()))
    return state.emitOpError("S2: the sharding does not split dimension 0 over "
                             "axis 0 of a grid that exists");
  if (!state.getGlobal())
    return state.emitOpError("S2: the type is that of the whole tensor; run "
                             "fsdp-localize");
  auto global = state.getGlobalType().getShape();
  auto local = state.getTensorType().getShape();
  if (global.empty() || local[0] != getLocalRows(global[0], ranks) ||
      global.drop_front() != local.drop_front())
    return state.emitOpError()
           << "S2: " << state.getType() << " is not one of " << ranks
           << " parts of " << state.getGlobalType();
  return success();
}

LogicalResult VerifySharded::verifyLoad(LoadOp load) {
  if (!getSharded(load.getState()))
    return success();
  for (Operation *reader : load->getUsers())
    if (!isa<shard::AllGatherOp>(reader))
      return reader->emitOpError()
             << "S4: reads the local part of " << load.getStateAttr()
             << "; only `shard.all_gather` may";
  return success();
}

LogicalResult VerifySharded::verifyUpdate(UpdateOp update) {
  StateOp parameter = getSharded(update.getParameter());
  if (!parameter)
    return success();
  auto division = update.getGradient().getDefiningOp<aten::CallOp>();
  auto divisor = division && division.getCallee() == "div.Scalar"
                     ? dyn_cast_or_null<FloatAttr>(division.getArg("other"))
                     : FloatAttr();
  auto sum =
      divisor && divisor.getValueAsDouble() == double(ranks)
          ? division->getOperand(0).getDefiningOp<shard::ReduceScatterOp>()
          : shard::ReduceScatterOp();
  if (!sum || sum.getReduction() != shard::ReductionKind::Sum)
    return update.emitOpError()
           << "S5: the gradient of " << update.getParameterAttr()
           << " is not the sum of a `shard.reduce_scatter` divided by "
           << ranks;
  if (sum->getAttr("fsdp.unit") != parameter.getUnitAttr())
    return sum.emitOpError() << "S6: `fsdp.unit` is not the unit of "
                             << update.getParameterAttr();
  return success();
}

LogicalResult VerifySharded::verifyGather(shard::AllGatherOp gather) {
  auto load = gather.getInput().getDefiningOp<LoadOp>();
  StateOp state = load ? getSharded(load.getState()) : StateOp();
  if (!state)
    return gather.emitOpError("S6: gathers something else than a sharded "
                              "parameter");
  if (gather->getAttr("fsdp.unit") != state.getUnitAttr())
    return gather.emitOpError()
           << "S6: `fsdp.unit` is not the unit of " << load.getStateAttr();
  auto region = gather->getAttrOfType<StringAttr>("fsdp.region");
  if (!region || (region != "forward" && region != "backward"))
    return gather.emitOpError(
        "S6: `fsdp.region` is neither \"forward\" nor \"backward\"");
  if (region == "backward")
    for (Operation *reader : gather->getUsers())
      if (!isBackward(reader))
        return reader->emitOpError(
            "S6: forward reads a gather of the region \"backward\"");
  return success();
}

LogicalResult VerifySharded::verifyProgram(func::FuncOp program) {
  // In a straight line, what follows an update follows it in the walk.
  llvm::DenseSet<StringRef> updated;
  bool ok = true;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    LogicalResult result = success();
    if (auto load = dyn_cast<LoadOp>(op))
      result = verifyLoad(load);
    else if (auto update = dyn_cast<UpdateOp>(op))
      result = verifyUpdate(update);
    else if (auto gather = dyn_cast<shard::AllGatherOp>(op))
      result = verifyGather(gather);
    else if (isa<UnshardOp, ReduceGradOp>(op))
      result = op->emitOpError("S7: is left; run fsdp-localize");
    if (succeeded(result))
      for (Value operand : op->getOperands())
        if (auto load = operand.getDefiningOp<LoadOp>();
            load && updated.contains(load.getState()))
          result = op->emitOpError() << "S8: reads " << load.getStateAttr()
                                     << " after its update";
    if (auto update = dyn_cast<UpdateOp>(op))
      updated.insert(update.getParameter());
    ok &= succeeded(result);
  });
  return success(ok);
}

} // namespace
