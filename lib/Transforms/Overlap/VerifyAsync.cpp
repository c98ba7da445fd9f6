// fsdp-verify-async.

#include "GradientMean.h"

#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"
#include "plan/Collectives.h"

#include "llvm/ADT/StringSet.h"

namespace fsdp {
#define GEN_PASS_DEF_VERIFYASYNC
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class VerifyAsync : public fsdp::impl::VerifyAsyncBase<VerifyAsync> {
  E kindOfErrors() const override { return E::Verifier; }

  void runOnModule() override {
    ModuleOp module = getOperation();
    mesh.emplace(module);
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
    auto start = dyn_cast<StartOpInterface>(op);
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (isa<StartableOpInterface>(op) || (collective && !start))
      return op->emitOpError(
          "A1: is not asynchronous; run "
          "fsdp-bucket-collectives and fsdp-convert-to-async");
    if (!start)
      return success();
    if (collective && (failed(verifyNeighbours(collective)) ||
                       failed(verifyDivisor(collective))))
      return failure();
    if (failed(verifyInto(start)))
      return failure();
    return verifyStart(start, !collective || matchesMesh(collective));
  }

  /// It is over the axes of a role, and takes and gives as many pieces as its
  /// kind does.
  bool matchesMesh(CollectiveOpInterface op) {
    if (!mesh->isOver(op, AxisRole::Shard) &&
        !mesh->isOver(op, AxisRole::Replicate))
      return false;
    const plan::CollectiveInfo &info = op.getInfo();
    int64_t ranks = mesh->getNumRanks(op);
    uint64_t piece = op.getPieceType().getNumElements();
    return op.getSourceType().getNumElements() ==
               int64_t(piece * info.piecesSent(ranks)) &&
           op.getDestinationType().getNumElements() ==
               int64_t(piece * info.piecesReceived(ranks));
  }

  /// Where there are replicas, the sum over them divides. Sums may be divided
  /// elsewhere than in what comes last.
  LogicalResult verifyDivisor(CollectiveOpInterface op) {
    if (op.getRole() == CollectiveRole::Parameter)
      return success();
    bool scatters = op.getKind() == CollectiveKind::ReduceScatter;
    double mean = means->get(op.getUnitAttr(), op.getPieceType()).after;
    double divisor = scatters && mesh->getNumReplicas() > 1 ? 1 : mean;
    double given = op.getDivisor().convertToDouble();
    if (given == divisor || (!scatters && given == 1))
      return success();
    return op->emitOpError()
           << "A7: its sum over "
           << (scatters ? mesh->getNumShards() : mesh->getNumRanks())
           << " ranks is divided by "
           << FloatAttr::get(Float64Type::get(&getContext()), given)
           << ", not by " << divisor;
  }

  /// Neighbours gather what as many keep of what all shards gathered.
  LogicalResult verifyNeighbours(CollectiveOpInterface gather) {
    int64_t ranks = gather.getRanks();
    if (!ranks)
      return success();
    auto kept = gather->getOperand(0).getDefiningOp<KeepOp>();
    auto wait = kept ? kept.getInput().getDefiningOp<WaitOp>() : WaitOp();
    auto whole = wait ? wait.getFuture().getDefiningOp<CollectiveOpInterface>()
                      : CollectiveOpInterface();
    if (!whole || whole.getKind() != gather.getKind() || whole.getRanks() ||
        int64_t(kept.getRanks()) != ranks || mesh->getNumShards() % ranks ||
        gather.getMapped())
      return gather->emitOpError()
             << "A8: is among " << ranks << " of " << mesh->getNumShards()
             << " ranks, and not of what as many keep of a gather over all";
    return success();
  }

  /// What goes into a state is what the state's update has given, and ends in
  /// the state's memory.
  LogicalResult verifyInto(StartOpInterface start) {
    FlatSymbolRefAttr into = start.getIntoAttr();
    if (!into)
      return success();
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(start, into);
    auto update = start->getOperand(0).getDefiningOp<UpdateOp>();
    if (state && state.getOnHost() == start.isToHost() && update &&
        update.getParameterAttr() == into)
      return success();
    return start->emitOpError()
           << "A9: copies into " << into
           << ", which is elsewhere or not what it has updated";
  }

  LogicalResult verifyStart(StartOpInterface op, bool matchesMesh) {
    auto waits = op.getFuture().getUsers();
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
             << "A5: its type is not that of a mesh of " << mesh->getNumRanks()
             << " ranks, or it is over other axes than those of a role";
    if (StringAttr unit = op.getUnitAttr();
        unit && !units.contains(unit.getValue()))
      return op->emitOpError()
             << "A6: belongs to the unit " << unit << ", which does not exist";
    return success();
  }

  std::optional<Mesh> mesh;
  std::optional<GradientMeans> means;
  llvm::StringSet<> units;
};

} // namespace
