// A program taken apart into what has an order and what may move.

#include "Overlap/ProgramSchedule.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

/// The states that an op writes.
static SmallVector<StringAttr> getWrittenStates(Operation *op) {
  SmallVector<StringAttr> names;
  if (auto access = dyn_cast<StateAccessOpInterface>(op))
    for (FlatSymbolRefAttr state : access.getWrittenStates())
      names.push_back(state.getAttr());
  return names;
}

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

/// Calls `visit` with every op that reads the memory of `value`, through views.
static void forEachReader(Value value, function_ref<void(Operation *)> visit) {
  for (OpOperand &use : value.getUses()) {
    visit(use.getOwner());
    if (auto call = dyn_cast<aten::CallOp>(use.getOwner()))
      for (OpResult result : call->getResults())
        if (call.getAliasedOperand(result.getResultNumber()) ==
            use.getOperandNumber())
          forEachReader(result, visit);
  }
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

static Flight makeFlight(StartOpInterface start, const OpCost &cost) {
  Flight flight;
  flight.start = start;
  Value input = start->getOperand(0);
  flight.wait = cast<WaitOp>(start.getWait());
  flight.isGather = start.isIncoming();
  flight.unit = getText(start.getUnitAttr());
  flight.region = getText(start.getRegionAttr());
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

/// Copies from and to the host that no flight of a collective contains: fetches
/// of what compute reads, and offloads of what depends on no sum. Those of
/// staged parameters go with their updates.
static SmallVector<StartOpInterface>
getLoneCopies(Block &block,
              const llvm::DenseMap<Operation *, Flight *> &owners) {
  SmallVector<StartOpInterface> copies;
  llvm::DenseSet<Operation *> sums; // and what depends on one
  for (Operation &op : block) {
    bool ofSum = llvm::any_of(op.getOperands(), [&](Value operand) {
      return sums.contains(operand.getDefiningOp());
    });
    Flight *owner = owners.lookup(&op);
    if (ofSum || (owner && !owner->isGather))
      sums.insert(&op);
    auto start = dyn_cast<StartOpInterface>(op);
    if (isCopyStart(&op) && !ofSum && !owner && !isStaging(&op) &&
        !start.getIntoAttr())
      copies.push_back(start);
  }
  return copies;
}

/// The reductions whose sums `op` depends on.
static SmallVector<Flight *>
findReductions(Operation *op, const llvm::DenseSet<Operation *> &tail,
               const llvm::DenseMap<Operation *, Flight *> &owners) {
  llvm::SetVector<Flight *> found;
  llvm::SetVector<Operation *> seen;
  seen.insert(op);
  for (size_t i = 0; i < seen.size(); ++i)
    for (Value operand : seen[i]->getOperands()) {
      Operation *def = operand.getDefiningOp();
      Flight *flight = def ? owners.lookup(def) : nullptr;
      if (!flight) {
        if (def && tail.contains(def))
          seen.insert(def);
      } else if (!flight->isGather) {
        found.insert(flight);
      }
    }
  return found.takeVector();
}

std::optional<ProgramSchedule> ProgramSchedule::compute(func::FuncOp program,
                                                        const OpCost &cost) {
  ProgramSchedule schedule;
  schedule.block = &program.getBody().front();
  schedule.cost = &cost;

  // Collectives, and what moves with them. An all-reduce of a unit that follows
  // no other reduction is that of a mesh of replicas alone.
  llvm::DenseMap<Operation *, Flight *> owners;
  // A number over all gradients is compute, which waits for it.
  llvm::DenseSet<Operation *> replicaSums;
  for (Operation &op : *schedule.block) {
    auto start = dyn_cast<StartOpInterface>(op);
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (!start || !collective || replicaSums.contains(start))
      continue;
    // What an update alone reads is of sums, and comes behind them.
    if (getText(start.getRegionAttr()) == "update")
      continue;
    if (start.isIncoming()) {
      schedule.gathers.push_back(makeFlight(start, cost));
    } else if (collective.getRole() == CollectiveRole::Gradient) {
      schedule.reductions.push_back(makeFlight(start, cost));
      replicaSums.insert(schedule.reductions.back().replicas.start);
    }
  }
  auto own = [&] {
    owners.clear();
    for (auto *flights : {&schedule.gathers, &schedule.reductions})
      for (Flight &flight : *flights) {
        owners[flight.start] = owners[flight.wait] = &flight;
        if (flight.replicas.start)
          owners[flight.replicas.start] = owners[flight.replicas.wait] =
              &flight;
        for (auto ops : {ArrayRef<Operation *>(flight.before),
                         ArrayRef<Operation *>(flight.replicas.before),
                         ArrayRef<Operation *>(flight.behind),
                         ArrayRef<Operation *>(flight.after)})
          for (Operation *op : ops)
            owners[op] = &flight;
      }
  };
  own();
  for (StartOpInterface copy : getLoneCopies(*schedule.block, owners))
    (copy.isIncoming() ? schedule.gathers : schedule.reductions)
        .push_back(makeFlight(copy, cost));
  own();

  // Loads in front of any write go to the top, what depends on a sum to the
  // tail; all else is the spine.
  llvm::DenseMap<Operation *, size_t> indices;
  llvm::DenseSet<Operation *> tail;
  llvm::DenseSet<StringAttr> written, writtenByTail;
  schedule.slotSeconds.push_back(0);
  std::optional<size_t> backward;
  for (Operation &op : schedule.block->without_terminator()) {
    Flight *owner = owners.lookup(&op);
    bool dependsOnSum = llvm::any_of(op.getOperands(), [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      if (!def)
        return false;
      Flight *source = owners.lookup(def);
      return tail.contains(def) ||
             (source && !source->isGather &&
              (def == source->getLastWait() ||
               llvm::is_contained(source->after, def) ||
               llvm::is_contained(source->replicas.before, def)));
    });
    if (owner) {
      if (dependsOnSum &&
          (&op == owner->start || llvm::is_contained(owner->before, &op)))
        return std::nullopt;
      continue;
    }
    if (dependsOnSum || isStaging(&op)) {
      tail.insert(&op);
      schedule.tail.push_back(&op);
      for (StringAttr state : getWrittenStates(&op))
        writtenByTail.insert(state);
      continue;
    }
    if (auto load = dyn_cast<LoadOp>(op)) {
      StringAttr state = load.getStateAttr().getAttr();
      if (writtenByTail.contains(state))
        return std::nullopt;
      if (!written.contains(state)) {
        schedule.loads.push_back(&op);
        continue;
      }
    }
    for (StringAttr state : getWrittenStates(&op)) {
      if (writtenByTail.contains(state))
        return std::nullopt;
      written.insert(state);
    }
    if (!backward && isBackward(&op))
      backward = schedule.spine.size();
    indices[&op] = schedule.spine.size();
    schedule.spine.push_back(&op);
    schedule.slotSeconds.push_back(schedule.slotSeconds.back() +
                                   cost.getSeconds(&op));
  }
  size_t last = schedule.spine.size();
  schedule.backwardSlot = backward.value_or(last);

  // When inputs are there, and when results are needed.
  auto slotOf = [&](Operation *op) {
    auto it = indices.find(op);
    return it == indices.end() ? last : it->second;
  };
  auto readyAfter = [&](Operation *op, size_t &ready) {
    for (Value operand : op->getOperands())
      if (auto it = indices.find(operand.getDefiningOp()); it != indices.end())
        ready = std::max(ready, it->second + 1);
  };
  for (auto *flights : {&schedule.gathers, &schedule.reductions})
    for (Flight &flight : *flights) {
      readyAfter(flight.start, flight.ready);
      for (Operation *op : flight.before)
        readyAfter(op, flight.ready);
      flight.need = last;
      if (!flight.isGather)
        continue;
      auto read = [&](Operation *op) {
        if (!owners.lookup(op))
          flight.need = std::min(flight.need, slotOf(op));
      };
      llvm::for_each(flight.wait->getUsers(), read);
      for (Operation *op : flight.after)
        llvm::for_each(op->getUsers(), read);
    }

  // An update waits until its states are no longer read; and, as ranks may
  // read each other's states in their windows, for a collective that starts
  // behind the last such read: its own reduction.
  llvm::DenseMap<StringAttr, size_t> lastReads, lastWindowReads;
  auto note = [](llvm::DenseMap<StringAttr, size_t> &slots, StringAttr state,
                 size_t slot) {
    size_t &known = slots[state];
    known = std::max(known, slot);
  };
  for (Operation *op : schedule.loads) {
    StringAttr state = cast<LoadOp>(op).getStateAttr().getAttr();
    forEachReader(op->getResult(0), [&](Operation *reader) {
      if (isStaging(reader))
        return; // what writes the state depends on it
      Flight *flight = owners.lookup(reader);
      note(lastReads, state,
           flight ? flight->need : std::min(slotOf(reader) + 1, last));
      if (flight && flight->isMapped)
        forEachReader(flight->wait.getResult(), [&](Operation *reader) {
          note(lastWindowReads, state, std::min(slotOf(reader) + 1, last));
        });
    });
  }
  for (Operation *op : schedule.tail) {
    size_t &slot = schedule.earliest[op];
    size_t windowRead = 0;
    for (StringAttr state : getWrittenStates(op)) {
      windowRead = std::max(windowRead, lastWindowReads.lookup(state));
      slot = std::max({slot, lastReads.lookup(state), windowRead});
    }
    auto update = dyn_cast<UpdateOp>(op);
    bool stages = update && getStaging(update);
    SmallVector<Flight *> of;
    if (windowRead || stages)
      of = findReductions(op, tail, owners);
    if (windowRead && !of.empty()) {
      size_t &ready = (*llvm::max_element(of, [](Flight *a, Flight *b) {
                        return a->ready < b->ready;
                      }))->ready;
      ready = std::max(ready, windowRead);
    }
    if (stages && of.size() == 1)
      of.front()->updates.push_back(update);
    // Of what else has effects the order is kept.
    if (!isa<UpdateOp, AccumulateOp>(op) && !isCopyStart(op) &&
        !isCopyWait(op) && !isMemoryEffectFree(op))
      slot = last;
  }

  // One order per channel: gathers as they are needed, reductions as they are
  // ready.
  llvm::stable_sort(schedule.gathers, [](const Flight &a, const Flight &b) {
    return a.need < b.need;
  });
  llvm::stable_sort(schedule.reductions, [](const Flight &a, const Flight &b) {
    return a.ready < b.ready;
  });
  for (auto *flights : {&schedule.gathers, &schedule.reductions})
    for (auto [order, flight] : llvm::enumerate(*flights))
      flight.order = order;
  return schedule;
}
