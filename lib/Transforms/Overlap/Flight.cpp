// What a schedule moves: collectives and copies, with what is there for them.

#include "Overlap/Flight.h"

#include "fsdp/Dialect/Aten/Aten.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fsdp;

Operation *fsdp::getStaging(UpdateOp update) {
  Value staged = update.getStaged();
  auto wait = staged ? staged.getDefiningOp<WaitOp>() : WaitOp();
  return wait ? wait.getFuture().getDefiningOp() : nullptr;
}

bool fsdp::isStaging(Operation *op) {
  return isCopyStart(op) &&
         llvm::any_of(op->user_begin()->getUsers(), [&](Operation *reader) {
           auto update = dyn_cast<UpdateOp>(reader);
           return update && getStaging(update) == op;
         });
}

/// Whether an op starts a copy from the host, of what compute reads.
static bool isFetchStart(Operation *op) {
  auto start = dyn_cast_or_null<StartOpInterface>(op);
  return start && isCopyStart(op) && start.isIncoming();
}

/// The pack or the fetch, and what else is there for a start alone, in order.
static SmallVector<Operation *, 1> getPreparation(StartOpInterface start) {
  llvm::SetVector<Operation *> found;
  auto isOnlyForIt = [&](Operation *op) {
    // What is kept must let go of the bucket that it is a part of.
    if (!op || op->getBlock() != start->getBlock() || !op->getNumOperands() ||
        isa<KeepOp>(op))
      return false;
    auto wait = dyn_cast<WaitOp>(op);
    bool fetches = isFetchStart(wait ? wait.getFuture().getDefiningOp() : op);
    return (fetches || isMemoryEffectFree(op)) &&
           llvm::all_of(op->getUsers(), [&](Operation *user) {
             return user == start || found.contains(user);
           });
  };
  // A gradient is computed for its reduction alone too, and yet is compute:
  // of reductions only the pack moves.
  bool deep = start.isIncoming() && !isCopyStart(start);
  SmallVector<Operation *> work{start};
  while (!work.empty())
    for (Value operand : work.pop_back_val()->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (isOnlyForIt(def) && (deep || isa<PackOp>(def)) && found.insert(def))
        work.push_back(def);
    }
  SmallVector<Operation *, 1> ops(found.begin(), found.end());
  llvm::sort(ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ops;
}

/// What takes a sum to the host, and is all that reads it.
static StartOpInterface getOffload(WaitOp wait) {
  if (!wait->hasOneUse())
    return {};
  auto start = dyn_cast<StartOpInterface>(*wait->user_begin());
  return start && start.isToHost() ? start : StartOpInterface();
}

/// Whether an op starts a sum of gradients over replicas.
static bool isGradientSum(Operation *op) {
  auto sum = dyn_cast<CollectiveOpInterface>(op);
  return sum && sum.getKind() == CollectiveKind::AllReduce &&
         sum.getRole() == CollectiveRole::Gradient;
}

/// The all-reduce that reads a reduction's result, or its members once earlier
/// micro-batches' sums are added to them.
static ReplicaSum getReplicaSum(WaitOp reduction, const OpCost &cost) {
  ReplicaSum sum;
  llvm::SetVector<Operation *> between;
  between.insert(reduction);
  for (size_t i = 0; i < between.size(); ++i)
    for (Operation *reader : between[i]->getUsers()) {
      if (isa<UnpackOp, PackOp>(reader) ||
          aten::CallOp::getAccumulation(reader))
        between.insert(reader);
      else if (isGradientSum(reader))
        sum.start = cast<StartOpInterface>(reader);
    }
  if (!sum.start)
    return sum;
  sum.before.assign(std::next(between.begin()), between.end());
  llvm::sort(sum.before,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  sum.wait = cast<WaitOp>(sum.start.getWait());
  sum.seconds = cost.getSeconds(sum.start);
  return sum;
}

static StringRef getText(StringAttr text) {
  return text ? text.getValue() : StringRef();
}

Flight fsdp::makeFlight(StartOpInterface start, const OpCost &cost) {
  Flight flight;
  flight.start = start;
  Value input = start->getOperand(0);
  flight.wait = cast<WaitOp>(start.getWait());
  flight.isGather = start.isIncoming();
  flight.unit = getText(start.getUnitAttr());
  flight.region = start.getRegion();
  if (auto collective = dyn_cast<CollectiveOpInterface>(start.getOperation())) {
    flight.isMapped = collective.getMapped();
    if (collective.getKind() == CollectiveKind::ReduceScatter)
      flight.replicas = getReplicaSum(flight.wait, cost);
  }
  flight.before = getPreparation(start);
  if (StartOpInterface offload = getOffload(flight.getLastWait())) {
    flight.behind = {flight.getLastWait(), offload};
    (flight.replicas.start ? flight.replicas.wait : flight.wait) =
        cast<WaitOp>(offload.getWait());
  }
  for (Operation *reader : flight.getLastWait()->getUsers())
    if (isa<UnpackOp>(reader))
      flight.after.push_back(reader);
  if (!flight.isMapped)
    flight.bytes = getTensorBytes(getMovedType(start.getFuture()));
  if (!flight.before.empty())
    flight.bytes += getTensorBytes(cast<RankedTensorType>(input.getType()));
  flight.seconds = cost.getSeconds(start);
  for (Operation *copy : flight.before)
    if (isCopyStart(copy))
      flight.seconds += cost.getSeconds(copy);
  for (Operation *copy : flight.behind)
    flight.seconds += cost.getSeconds(copy);
  return flight;
}
