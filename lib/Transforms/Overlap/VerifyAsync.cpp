// fsdp-verify-async.

#include "GradientMean.h"

#include "fsdp/Transforms/Mesh.h"
#include "fsdp/Transforms/Passes.h"

#include "llvm/ADT/StringSet.h"

namespace fsdp {
#define GEN_PASS_DEF_VERIFYASYNC
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class VerifyAsync : public fsdp::impl::VerifyAsyncBase<VerifyAsync> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    ranks = getNumRanks(module);
    shards = getNumShards(module);
    if (shard::GridOp mesh = getMesh(module))
      numAxes = mesh.getShape().size();
    means.emplace(module);
    for (UnitOp unit : module.getOps<UnitOp>())
      units.insert(unit.getUnitName());
    bool ok = true;
    for (func::FuncOp program : getPrograms(module))
      program.walk([&](Operation *op) { ok &= succeeded(verifyOp(op)); });
    if (!ok)
      signalPassFailure();
  }

  LogicalResult verifyOp(Operation *op) {
    if (isa<AllGatherOp, ReduceScatterOp, AllReduceOp, FetchOp, OffloadOp,
            shard::AllGatherOp, shard::ReduceScatterOp, shard::AllReduceOp>(op))
      return op->emitOpError(
          "A1: is not asynchronous; run "
          "fsdp-bucket-collectives and fsdp-convert-to-async");
    if (auto gather = dyn_cast<AllGatherStartOp>(op)) {
      int64_t piece =
          cast<RankedTensorType>(gather.getInput().getType()).getNumElements();
      int64_t neighbours = gather.getRanks();
      if (neighbours && failed(verifyKept(gather)))
        return failure();
      return verifyStart(
          op, gather.getFuture(), gather.getUnit(),
          gather.getFuture().getType().getType().getNumElements() ==
              piece * (neighbours ? neighbours : shards));
    }
    if (auto reduction = dyn_cast<ReduceScatterStartOp>(op)) {
      int64_t all = cast<RankedTensorType>(reduction.getInput().getType())
                        .getNumElements();
      int64_t piece =
          reduction.getFuture().getType().getType().getNumElements();
      // Where there are replicas, the sum over them divides.
      double divisor =
          ranks > shards ? 1
                         : means
                               ->get(reduction.getUnitAttr(),
                                     reduction.getFuture().getType().getType())
                               .after;
      if (reduction.getDivisor().convertToDouble() != divisor)
        return op->emitOpError()
               << "A7: its sum over " << shards << " ranks is divided by "
               << reduction.getDivisorAttr() << ", not by " << divisor;
      return verifyStart(op, reduction.getFuture(), reduction.getUnit(),
                         all == piece * shards);
    }
    if (auto reduction = dyn_cast<AllReduceStartOp>(op)) {
      double divisor = means
                           ->get(reduction.getUnitAttr(),
                                 reduction.getFuture().getType().getType())
                           .after;
      double given = reduction.getDivisor().convertToDouble();
      if (given != 1 && given != divisor)
        return op->emitOpError()
               << "A7: its sum over " << ranks << " ranks is divided by "
               << reduction.getDivisorAttr() << ", not by " << divisor;
      return verifyStart(op, reduction.getFuture(), reduction.getUnit(),
                         reduction.getMeshDim() < numAxes);
    }
    if (auto fetch = dyn_cast<FetchStartOp>(op)) {
      if (failed(verifyInto(op, fetch.getIntoAttr(), /*onHost=*/false)))
        return failure();
      return verifyStart(op, fetch.getFuture(), fetch.getUnit(), true);
    }
    if (auto offload = dyn_cast<OffloadStartOp>(op)) {
      if (failed(verifyInto(op, offload.getIntoAttr(), /*onHost=*/true)))
        return failure();
      return verifyStart(op, offload.getFuture(), offload.getUnit(), true);
    }
    return success();
  }

  /// Neighbours gather what as many keep of what all shards gathered.
  LogicalResult verifyKept(AllGatherStartOp gather) {
    auto kept = gather.getInput().getDefiningOp<KeepOp>();
    auto wait = kept ? kept.getInput().getDefiningOp<WaitOp>() : WaitOp();
    auto whole = wait ? wait.getFuture().getDefiningOp<AllGatherStartOp>()
                      : AllGatherStartOp();
    int64_t ranks = gather.getRanks();
    if (!whole || whole.getRanks() || int64_t(kept.getRanks()) != ranks ||
        shards % ranks || gather.getMapped())
      return gather->emitOpError()
             << "A8: is among " << ranks << " of " << shards
             << " ranks, and not of what as many keep of a gather over all";
    return success();
  }

  /// What goes into a state is what the state's update has given, and ends in
  /// the state's memory.
  LogicalResult verifyInto(Operation *op, FlatSymbolRefAttr into, bool onHost) {
    if (!into)
      return success();
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(op, into);
    auto update = op->getOperand(0).getDefiningOp<UpdateOp>();
    if (state && state.getOnHost() == onHost && update &&
        update.getParameterAttr() == into)
      return success();
    return op->emitOpError()
           << "A9: copies into " << into
           << ", which is elsewhere or not what it has updated";
  }

  LogicalResult verifyStart(Operation *op, Value future,
                            std::optional<StringRef> unit, bool matchesMesh) {
    auto waits = future.getUsers();
    int64_t count = std::distance(waits.begin(), waits.end());
    if (count != 1)
      return op->emitOpError() << "A2: is waited for " << count
                               << " times; a future has exactly one wait";
    if (!isa<WaitOp>(*waits.begin()) ||
        (*waits.begin())->getBlock() != op->getBlock())
      return op->emitOpError("A3: is not waited for in its own block");
    auto program = dyn_cast<func::FuncOp>(op->getParentOp());
    if (!program || op->getBlock() != &program.front())
      return op->emitOpError("A4: is not in a program's first block, so ranks "
                             "might disagree on whether it runs");
    if (!matchesMesh)
      return op->emitOpError()
             << "A5: its type is not that of a mesh of " << ranks << " ranks";
    if (unit && !units.contains(*unit))
      return op->emitOpError() << "A6: belongs to the unit \"" << *unit
                               << "\", which does not exist";
    return success();
  }

  int64_t ranks = 1, shards = 1;
  uint64_t numAxes = 0; // of the mesh
  std::optional<GradientMeans> means;
  llvm::StringSet<> units;
};

} // namespace
