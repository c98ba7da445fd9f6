// How long one op takes.

#include "fsdp/Analysis/OpCost.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/Work.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "plan/Collectives.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

OpCost::OpCost(ModuleOp module, cost::Cluster cluster)
    : cluster(std::move(cluster)), mesh(module), symbols(module) {}

static double getBytes(Type type) {
  if (auto future = dyn_cast<FutureType>(type))
    type = future.getType();
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? getTensorBytes(tensor) : 0;
}

static double getBytes(TypeRange types) {
  double sum = 0;
  for (Type type : types)
    sum += getBytes(type);
  return sum;
}

double OpCost::getCollectiveSeconds(CollectiveOpInterface op) const {
  if (op.isGlobal())
    return 0; // its lowered form takes the time
  if (!isMemory(op.getSourceType()) || !isMemory(op.getDestinationType()))
    return 0; // of no unit
  if (op.getMapped())
    return cluster.collectiveSeconds;
  return cost::collectiveSeconds(op.getInfo().kind, getBytes(op.getWholeType()),
                                 mesh.getNumRanks(op), cluster,
                                 mesh.getStride(op.getMeshAxes()));
}

double OpCost::getSecondsOverShards(plan::CollectiveKind kind,
                                    double bytes) const {
  return cost::collectiveSeconds(kind, bytes, mesh.getNumShards(), cluster,
                                 mesh.getStride(AxisRole::Shard));
}

double OpCost::getMemorySeconds(double bytes) const {
  return cost::memorySeconds(bytes, cluster);
}

/// Whether the ranks of the first shard do nothing here. Times are theirs,
/// since they have the most of what only some ranks do.
static bool isOfOthers(ShardsAttr shards) {
  return shards && shards.getFirst() > 0;
}

static bool isOnHost(Value value) {
  PlaceAttr place = getPlace(value);
  return place && place.getArena() == kHostArena;
}

static cost::CopyWork getCopyWork(CmdCopyOp op) {
  cost::CopyWork work;
  for (auto piece : op.getPieces().getAsRange<PieceAttr>()) {
    if (isOfOthers(piece.getShards()))
      continue;
    double bytes = double(piece.getBytes()) * piece.getBlocks();
    if (piece.getSource() < 0)
      work.fill(bytes);
    else
      work.copy(bytes,
                isOnHost(op.getSources()[piece.getSource()]) ==
                    isOnHost(op.getDestinations()[piece.getDestination()]));
  }
  return work;
}

double OpCost::getSeconds(Operation *op) const {
  auto call = [&](auto op, bool isView, ShardsAttr shards) {
    return isView || isOfOthers(shards)
               ? 0
               : cost::callSeconds(aten::getWork(op.getCallee(),
                                                 op.getInputs().getTypes(),
                                                 op.getOutputs().getTypes()),
                                   op.getMeasured(), cluster);
  };
  auto update = [&](auto op) {
    double bytes = 0;
    SmallVector<Attribute> written(op.getStates().begin(),
                                   op.getStates().end());
    written.push_back(op.getParameterAttr());
    for (Attribute name : written)
      if (auto state =
              symbols.lookup<StateOp>(cast<FlatSymbolRefAttr>(name).getAttr()))
        bytes += getBytes(state.getTensorType());
    return cost::updateSeconds(getBytes(op.getGradient().getType()), bytes,
                               cluster);
  };
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return getCollectiveSeconds(collective);
  if (auto copy = dyn_cast<StartOpInterface>(op))
    return cost::hostCopySeconds(getBytes(copy.getFuture().getType()), cluster);
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<aten::CallOp>([&](aten::CallOp op) {
        return call(op, op.isView(), kShardsAttr.get(op));
      })
      .Case<CmdAtenOp>([&](CmdAtenOp op) {
        return call(op, op.getView(), op.getShardsAttr());
      })
      .Case<UpdateOp, CmdUpdateOp>([&](auto op) { return update(op); })
      .Case<AccumulateOp>([&](AccumulateOp op) {
        return getMemorySeconds(3 * getBytes(op.getValue().getType()));
      })
      .Case<PackOp, UnpackOp>([&](Operation *op) {
        return getMemorySeconds(getBytes(op->getOperandTypes()) +
                                getBytes(op->getResultTypes()));
      })
      .Case<KeepOp>([&](KeepOp op) {
        return getMemorySeconds(2 * getBytes(op.getResult().getType()));
      })
      .Case<StoreOp>([&](StoreOp op) {
        return getMemorySeconds(2 * getBytes(op.getValue().getType()));
      })
      .Case<CmdCopyOp>([&](CmdCopyOp op) {
        return cost::copySeconds(getCopyWork(op), cluster);
      })
      .Default(0.0);
}
