// fsdp-verify-sharded.

#include "GradientMean.h"
#include "Shard/ElementRanges.h"
#include "Shard/GradientStates.h"
#include "Shard/ShardedStates.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

namespace fsdp {
#define GEN_PASS_DEF_VERIFYSHARDED
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class VerifySharded : public fsdp::impl::VerifyShardedBase<VerifySharded> {
  E kindOfErrors() const override { return E::Verifier; }

  void runOnModule() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    table = &symbols;
    GradientMeans gradientMeans(module);
    means = &gradientMeans;
    mesh.emplace(module);
    replicas = mesh->getNumReplicas();
    shards = mesh->getNumShards();
    bool ok = succeeded(verifyShardedStates(module, symbols));
    for (func::FuncOp program : getPrograms(module))
      ok &= succeeded(verifyProgram(program));
    ok &= succeeded(verifyGradientStates(module));
    if (!ok)
      signalPassFailure();
  }

  LogicalResult verifyRange(UpdateOp update);
  LogicalResult verifyNames(Operation *op);
  LogicalResult verifyOp(Operation *op);
  LogicalResult verifyProgram(func::FuncOp program);
  LogicalResult verifyLoad(LoadOp load);
  LogicalResult verifyUpdate(UpdateOp update);
  Value getOwnGradient(Value gradient);
  LogicalResult verifyScales(func::FuncOp program);
  LogicalResult verifyHost(LoadOp load);
  LogicalResult verifyHost(UpdateOp update);
  LogicalResult verifyStaged(UpdateOp update, bool isOnHost,
                             bool updatedOnHost);
  LogicalResult verifyGather(shard::AllGatherOp gather);

  StateOp getSharded(StringRef name) {
    auto state = table->lookup<StateOp>(name);
    return state && state.getSharding() ? state : StateOp();
  }

  SymbolTable *table = nullptr;
  const GradientMeans *means = nullptr;
  std::optional<Mesh> mesh;
  int64_t replicas = 1, shards = 1;
  /// Of flat states: what a program updates.
  llvm::DenseMap<StateOp, ElementRanges> updates;
};

LogicalResult VerifySharded::verifyRange(UpdateOp update) {
  auto parameter = table->lookup<StateOp>(update.getParameter());
  int64_t whole = parameter.getGlobalType().getNumElements();
  int64_t begin = update.getBegin();
  int64_t end = update.getEnd() ? update.getEnd() : whole;
  if (begin > end || end > whole || failed(updates[parameter].add(begin, end)))
    return update.emitOpError()
           << "S12: updates the elements " << begin << " to " << end << " of "
           << update.getParameterAttr()
           << ", which are updated already or do not exist";
  return success();
}

LogicalResult VerifySharded::verifyLoad(LoadOp load) {
  if (failed(verifyHost(load)))
    return failure();
  StateOp state = getSharded(load.getState());
  if (!state || state.getRole() == Role::Gradient || shards == 1)
    return success();
  SmallVector<Operation *> readers = getReadersThroughCasts(load.getResult());
  for (Operation *reader : llvm::to_vector(load->getUsers()))
    if (auto fetch = dyn_cast<FetchOp>(reader))
      llvm::append_range(readers, getReadersThroughCasts(fetch.getResult()));
  for (Operation *reader : readers)
    if (!isa<shard::AllGatherOp, FetchOp, OffloadOp, UpdateOp>(reader))
      return reader->emitOpError()
             << "S4: reads the local part of " << load.getStateAttr()
             << "; only `shard.all_gather` may";
  return success();
}

/// The last micro-batch's own part of a gradient.
Value VerifySharded::getOwnGradient(Value gradient) {
  auto sum = aten::CallOp::getAccumulation(gradient.getDefiningOp());
  auto before = sum ? sum->getOperand(0).getDefiningOp<LoadOp>() : LoadOp();
  auto state = before ? table->lookup<StateOp>(before.getState()) : StateOp();
  return state && state.getRole() == Role::Gradient ? sum->getOperand(1)
                                                    : gradient;
}

/// Whether what is reduced, or each member of it, was divided by `divisor`.
static bool isDivided(Value reduced, double divisor) {
  if (auto pack = reduced.getDefiningOp<PackOp>())
    return llvm::all_of(pack.getInputs(), [&](Value member) {
      return bool(getDividend(member, divisor));
    });
  auto pad = reduced.getDefiningOp<aten::CallOp>();
  if (pad && pad.getCallee() == "constant_pad_nd")
    reduced = pad->getOperand(0);
  return bool(getDividend(reduced, divisor));
}

/// What is on the host is read by copies, and updated there.
LogicalResult VerifySharded::verifyHost(LoadOp load) {
  auto state = table->lookup<StateOp>(load.getState());
  for (Operation *reader : load->getUsers())
    if (state && state.getOnHost() != isa<FetchOp>(reader))
      return reader->emitOpError()
             << "S15: reads " << load.getStateAttr() << ", which is "
             << (state.getOnHost() ? "on the host, without an fsdp.fetch"
                                   : "not on the host");
  return success();
}

LogicalResult VerifySharded::verifyHost(UpdateOp update) {
  auto parameter = table->lookup<StateOp>(update.getParameter());
  if (!parameter)
    return success();
  StateOp where; // the update runs
  for (auto name : update.getStates().getAsRange<FlatSymbolRefAttr>()) {
    auto state = table->lookup<StateOp>(name.getValue());
    if (where && state && state.getOnHost() != where.getOnHost())
      return update.emitOpError()
             << "S15: updates " << where.getSymNameAttr() << " and " << name
             << ", of which one alone is on the host";
    where = state;
  }
  bool onHost = where ? where.getOnHost() : parameter.getOnHost();
  for (Value operand : {Value(update.getGradient()), Value(update.getScale()),
                        Value(update.getSkip())})
    if (operand && bool(operand.getDefiningOp<OffloadOp>()) != onHost)
      return update.emitOpError()
             << "S15: the gradient of " << update.getParameterAttr()
             << ", or what it is scaled by, is not in the memory of what it "
                "updates";
  return verifyStaged(update, parameter.getOnHost(), onHost);
}

/// A parameter that is not where it is updated is copied there, changed by its
/// updates one after the other, and stored.
LogicalResult VerifySharded::verifyStaged(UpdateOp update, bool isOnHost,
                                          bool updatedOnHost) {
  auto complain = [&](const Twine &what) {
    return update.emitOpError("S16: ") << update.getParameterAttr() << what;
  };
  Value staged = update.getStaged();
  if (bool(staged) != (isOnHost != updatedOnHost))
    return complain(staged
                        ? " is staged where it is"
                        : " is neither where it is updated nor staged there");
  if (!staged)
    return success();
  Operation *source = staged.getDefiningOp();
  bool fits = staged.hasOneUse();
  if (auto before = dyn_cast_or_null<UpdateOp>(source)) {
    fits &= before.getParameterAttr() == update.getParameterAttr();
  } else {
    auto load = isa_and_nonnull<FetchOp, OffloadOp>(source)
                    ? source->getOperand(0).getDefiningOp<LoadOp>()
                    : LoadOp();
    fits &= load && load.getStateAttr() == update.getParameterAttr() &&
            isa<OffloadOp>(source) == updatedOnHost;
  }
  if (!fits)
    return complain(" is updated in what is no copy of it for this alone");
  Value changed = update.getResult();
  if (!changed.hasOneUse() || !isa<UpdateOp, StoreOp>(*changed.user_begin()))
    return complain(" is updated in a copy that is not stored in it");
  return success();
}

LogicalResult VerifySharded::verifyUpdate(UpdateOp update) {
  if (failed(verifyHost(update)))
    return failure();
  StateOp parameter = getSharded(update.getParameter());
  if (!parameter)
    return success();
  if (failed(verifyRange(update)))
    return failure();
  Value gradient = update.getGradient();
  if (auto offload = gradient.getDefiningOp<OffloadOp>())
    gradient = offload.getInput();
  // What earlier micro-batches gave is added to the mean, or, where there are
  // replicas, to what is summed over them.
  bool replicated = replicas > 1;
  Value mean = aten::lookThroughPrecisionCast(gradient);
  if (!replicated)
    mean = aten::lookThroughPrecisionCast(getOwnGradient(mean));
  auto [before, after] = means->get(parameter.getUnitAttr(), mean.getType());
  // Innermost the sum over shards, around it that over replicas.
  Value sum = getDividend(mean, after);
  auto strip = [&](auto kind, AxisRole over) -> LogicalResult {
    auto op = sum ? sum.template getDefiningOp<decltype(kind)>() : kind;
    if (!op || op.getReduction() != shard::ReductionKind::Sum) {
      sum = {};
      return success();
    }
    if (kUnitAttr.get(op) != parameter.getUnitAttr())
      return op.emitOpError() << "S6: `fsdp.unit` is not the unit of "
                              << update.getParameterAttr();
    if (!mesh->isOver(cast<CollectiveOpInterface>(op.getOperation()), over))
      return op.emitOpError()
             << "S5: is of the gradient of " << update.getParameterAttr()
             << " and not over all axes of the role "
             << stringifyAxisRole(over);
    sum = op.getInput();
    return success();
  };
  if (replicated && failed(strip(shard::AllReduceOp(), AxisRole::Replicate)))
    return failure();
  if (replicated && sum)
    sum = getOwnGradient(sum);
  if (shards > 1 && failed(strip(shard::ReduceScatterOp(), AxisRole::Shard)))
    return failure();
  if (!sum || !isDivided(sum, before))
    return update.emitOpError()
           << "S5: the gradient of " << update.getParameterAttr()
           << " is not the sum of a `shard."
           << (shards > 1 ? "reduce_scatter" : "all_reduce") << "`"
           << (shards > 1 && replicated ? " and a `shard.all_reduce`" : "")
           << " divided by " << after
           << (before == 1 ? ""
                           : ", of gradients divided by " +
                                 std::to_string(int64_t(before)));
  return success();
}

LogicalResult VerifySharded::verifyGather(shard::AllGatherOp gather) {
  LoadOp load = getGatheredLoad(gather.getInput());
  StateOp state = load ? getSharded(load.getState()) : StateOp();
  if (!state)
    return gather.emitOpError("S6: gathers something else than a sharded "
                              "parameter");
  if (kUnitAttr.get(gather) != state.getUnitAttr())
    return gather.emitOpError()
           << "S6: `fsdp.unit` is not the unit of " << load.getStateAttr();
  auto region = kRegionAttr.get(gather);
  if (!region || region.getValue() == ProgramRegion::Update)
    return gather.emitOpError(
        "S6: `fsdp.region` is neither forward nor backward");
  if (region.getValue() == ProgramRegion::Backward)
    for (Operation *reader : gather->getUsers())
      if (!isBackward(reader))
        return reader->emitOpError(
            "S6: forward reads a gather of the region backward");
  return success();
}

LogicalResult VerifySharded::verifyNames(Operation *op) {
  auto access = dyn_cast<StateAccessOpInterface>(op);
  if (!access)
    return success();
  for (const auto &names : {access.getReadStates(), access.getWrittenStates()})
    for (FlatSymbolRefAttr name : names)
      if (auto state = table->lookup<StateOp>(name.getValue());
          state && state.getFlat())
        return op->emitOpError("S11: names ")
               << name << ", which lies in " << state.getFlatAttr();
  return success();
}

LogicalResult VerifySharded::verifyOp(Operation *op) {
  if (failed(verifyNames(op)))
    return failure();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<LoadOp>([&](auto load) { return verifyLoad(load); })
      .Case<UpdateOp>([&](auto update) { return verifyUpdate(update); })
      .Case<shard::AllGatherOp>(
          [&](auto gather) { return verifyGather(gather); })
      .Case<UnshardOp, ReduceGradOp>([](auto left) {
        return left.emitOpError("S7: is left; run fsdp-localize");
      })
      .Default(success());
}

LogicalResult VerifySharded::verifyProgram(func::FuncOp program) {
  // In a straight line, what follows an update follows it in the walk.
  llvm::DenseSet<StringRef> updated;
  updates.clear();
  bool ok = true;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    LogicalResult result = verifyOp(op);
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
  return success(ok && succeeded(verifyScales(program)));
}

/// What scales an update's gradient; updates on the host read a copy of it.
Value getScale(UpdateOp update) {
  Value scale = update.getScale();
  auto copy = scale ? scale.getDefiningOp<OffloadOp>() : OffloadOp();
  return copy ? copy.getOperand() : scale;
}

LogicalResult VerifySharded::verifyScales(func::FuncOp program) {
  auto training = TrainingOp::of(getOperation());
  DenseF64ArrayAttr bound =
      training ? training.getClipGradNormAttr() : DenseF64ArrayAttr();
  if (!bound || std::isinf(bound[0]))
    return success();
  Value factor;
  WalkResult result = program.walk([&](UpdateOp update) {
    if (!factor)
      factor = getScale(update);
    if (factor && getScale(update) == factor)
      return WalkResult::advance();
    update.emitOpError("S14: of ")
        << update.getParameterAttr()
        << " is not scaled as the others are; run fsdp-clip-gradients";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

} // namespace
