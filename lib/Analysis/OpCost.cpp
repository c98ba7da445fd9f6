// How long one op takes.

#include "fsdp/Analysis/OpCost.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "fsdp/Dialect/Aten/Work.h"
#include "plan/PlanTypes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

OpCost::OpCost(ModuleOp module, cost::Cluster cluster)
    : cluster(std::move(cluster)), symbols(module) {
  for (auto grid : module.getOps<shard::GridOp>())
    mesh.assign(grid.getShape().begin(), grid.getShape().end());
}

/// What is there for a collective or a copy alone, is waited for on its stream.
static unsigned getWaitStream(WaitOp wait) {
  if (!wait->hasOneUse())
    return plan::computeStream;
  Operation *reader = *wait->user_begin();
  return isa<AllGatherStartOp, OffloadStartOp>(reader)
             ? OpCost::getStream(reader)
             : unsigned(plan::computeStream);
}

/// Whether an all-reduce is over an axis in front of that of the shards.
static bool isOverReplicas(AllReduceStartOp reduction) {
  for (auto grid :
       reduction->getParentOfType<ModuleOp>().getOps<shard::GridOp>())
    return reduction.getMeshDim() + 1 < grid.getShape().size();
  return false;
}

unsigned OpCost::getStream(Operation *op) {
  for (StringRef name : {kStreamAttrName.data(), "stream"})
    if (auto stream = op->getAttrOfType<IntegerAttr>(name))
      return stream.getInt();
  if (isa<AllGatherStartOp>(op))
    return plan::gatherStream;
  if (isa<ReduceScatterStartOp>(op))
    return plan::reduceStream;
  if (auto reduction = dyn_cast<AllReduceStartOp>(op))
    return isOverReplicas(reduction) ? plan::replicateStream
                                     : plan::reduceStream;
  if (isa<FetchStartOp>(op))
    return plan::fetchStream;
  if (isa<OffloadStartOp>(op))
    return plan::offloadStream;
  if (auto wait = dyn_cast<WaitOp>(op))
    return getWaitStream(wait);
  return plan::computeStream;
}

/// What a kernel computes in; a memory-bound one in anything.
static plan::DType getDType(Type element) {
  return element ? aten::getDType(element).value_or(plan::DType::Float32)
                 : plan::DType::Float32;
}

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

double OpCost::getCollectiveSeconds(plan::CollectiveKind kind, Type whole,
                                    std::optional<size_t> meshDim,
                                    uint64_t ranks) const {
  if (mesh.empty())
    return 0;
  size_t dim = meshDim.value_or(mesh.size() - 1);
  unsigned stride = 1;
  for (int64_t inner : ArrayRef<int64_t>(mesh).drop_front(dim + 1))
    stride *= inner;
  return cost::collectiveSeconds(kind, getBytes(whole),
                                 ranks ? ranks : mesh[dim], cluster, stride);
}

double OpCost::getMemorySeconds(double bytes) const {
  return cost::kernelSeconds(0, bytes, plan::DType::Float32, cluster);
}

double OpCost::getSeconds(Operation *op) const {
  auto call = [&](StringRef callee, TypeRange operands, TypeRange results) {
    aten::Work work = aten::getWork(callee, operands, results);
    return cost::kernelSeconds(work.flops, work.bytes,
                               getDType(work.elementType), cluster);
  };
  // Parameter, gradient and states are read, all but the gradient written.
  auto update = [&](auto op) {
    double bytes = getBytes(op.getGradient().getType());
    SmallVector<Attribute> written(op.getStates().begin(),
                                   op.getStates().end());
    written.push_back(op.getParameterAttr());
    for (Attribute name : written)
      if (auto state =
              symbols.lookup<StateOp>(cast<FlatSymbolRefAttr>(name).getAttr()))
        bytes += 2 * getBytes(state.getTensorType());
    return getMemorySeconds(bytes);
  };
  constexpr auto gather = plan::CollectiveKind::AllGather;
  constexpr auto scatter = plan::CollectiveKind::ReduceScatter;
  constexpr auto reduce = plan::CollectiveKind::AllReduce;
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<aten::CallOp>([&](aten::CallOp op) {
        return op.isView() ? 0
                           : call(op.getCallee(), op.getInputs().getTypes(),
                                  op.getOutputs().getTypes());
      })
      .Case<CmdAtenOp>([&](CmdAtenOp op) {
        return op.getView() ? 0
                            : call(op.getCallee(), op.getInputs().getTypes(),
                                   op.getOutputs().getTypes());
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
      .Case<FetchStartOp, OffloadStartOp>([&](Operation *op) {
        return cost::hostCopySeconds(getBytes(op->getResult(0).getType()),
                                     cluster);
      })
      .Case<CmdCopyOp>([&](CmdCopyOp op) {
        double bytes = 0, offloaded = 0;
        for (auto piece : op.getPieces().getAsRange<PieceAttr>()) {
          double moved = double(piece.getBytes()) * piece.getBlocks();
          if (piece.getSource() < 0)
            bytes += moved;
          else if (getPlace(op.getSources()[piece.getSource()]).getArena() !=
                   getPlace(op.getDestinations()[piece.getDestination()])
                       .getArena())
            offloaded += moved;
          else
            bytes += 2 * moved;
        }
        return (bytes ? getMemorySeconds(bytes) : 0) +
               (offloaded ? cost::hostCopySeconds(offloaded, cluster) : 0);
      })
      .Case<AllGatherStartOp, AllGatherOp>([&](auto op) {
        return op.getMapped()
                   ? cluster.collectiveSeconds
                   : getCollectiveSeconds(gather, op->getResult(0).getType(),
                                          std::nullopt, op.getRanks());
      })
      .Case<ReduceScatterStartOp, ReduceScatterOp>([&](auto op) {
        return getCollectiveSeconds(scatter, op.getInput().getType());
      })
      .Case<AllReduceStartOp, AllReduceOp>([&](auto op) {
        return getCollectiveSeconds(reduce, op.getInput().getType(),
                                    op.getMeshDim());
      })
      .Case<shard::AllGatherOp>([&](auto op) {
        return getCollectiveSeconds(gather, op->getResult(0).getType());
      })
      .Case<shard::ReduceScatterOp>([&](auto op) {
        return getCollectiveSeconds(scatter, op.getInput().getType());
      })
      .Case<shard::AllReduceOp>([&](auto op) {
        double seconds = 0;
        for (int16_t axis : op.getGridAxes())
          seconds +=
              getCollectiveSeconds(reduce, op.getInput().getType(), axis);
        return seconds;
      })
      .Case<CmdCollectiveOp>([&](CmdCollectiveOp op) {
        if (op.getMapped())
          return cluster.collectiveSeconds;
        bool gathers = op.getKind() == CollectiveKind::AllGather;
        return getCollectiveSeconds(
            static_cast<plan::CollectiveKind>(op.getKind()),
            (gathers ? op.getDestination() : op.getSource()).getType(),
            op.getMeshDim(), op.getRanks());
      })
      .Default(0.0);
}
