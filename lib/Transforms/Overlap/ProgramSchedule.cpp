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

/// Takes a program apart, stage by stage.
class ProgramSchedule::Builder {
public:
  Builder(Block &block, const OpCost &cost) {
    schedule.block = &block;
    schedule.cost = &cost;
  }

  std::optional<ProgramSchedule> build() {
    findFlights();
    if (failed(splitOps()))
      return std::nullopt;
    findSlots();
    delayUpdates();
    orderFlights();
    return std::move(schedule);
  }

private:
  /// Collectives, lone copies, and what moves with them.
  void findFlights();
  /// Says which flight each op belongs to.
  void ownFlights();

  /// Loads in front of any write go to the top, what depends on a sum to the
  /// tail; all else is the spine. Fails where the program has no such order.
  LogicalResult splitOps();
  bool dependsOnSum(Operation *op) const;
  void addToSpine(Operation *op);

  /// When the inputs of flights are there, and when their results are needed.
  void findSlots();
  size_t getSlot(Operation *op) const;

  /// An update waits until its states are no longer read; and, as ranks may
  /// read each other's states in their windows, for a collective that starts
  /// behind the last such read: its own reduction.
  void delayUpdates();
  using LastReads = llvm::DenseMap<StringAttr, size_t>;
  void findLastReads(LastReads &reads, LastReads &windowReads) const;

  /// One order per channel: gathers as they are needed, reductions as they are
  /// ready.
  void orderFlights();

  template <typename Visit> void forEachFlight(Visit visit) {
    for (auto *flights : {&schedule.gathers, &schedule.reductions})
      llvm::for_each(*flights, visit);
  }

  ProgramSchedule schedule;
  llvm::DenseMap<Operation *, Flight *> owners;
  llvm::DenseSet<Operation *> tail;
  llvm::DenseMap<Operation *, size_t> indices; // of the spine's ops
};

void ProgramSchedule::Builder::findFlights() {
  // An all-reduce of a unit that follows no other reduction is that of a mesh
  // of replicas alone. A number over all gradients is compute, which waits for
  // it.
  llvm::DenseSet<Operation *> replicaSums;
  for (Operation &op : *schedule.block) {
    auto start = dyn_cast<StartOpInterface>(op);
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    // What an update alone reads is of sums, and comes behind them.
    if (!start || !collective || replicaSums.contains(start) ||
        collective.isForUpdates())
      continue;
    if (start.isIncoming()) {
      schedule.gathers.push_back(makeFlight(start, *schedule.cost));
    } else if (collective.getRole() == CollectiveRole::Gradient) {
      schedule.reductions.push_back(makeFlight(start, *schedule.cost));
      replicaSums.insert(schedule.reductions.back().replicas.start);
    }
  }
  ownFlights();
  for (StartOpInterface copy : getLoneCopies(*schedule.block, owners))
    (copy.isIncoming() ? schedule.gathers : schedule.reductions)
        .push_back(makeFlight(copy, *schedule.cost));
  ownFlights();
}

void ProgramSchedule::Builder::ownFlights() {
  owners.clear();
  forEachFlight([&](Flight &flight) {
    owners[flight.start] = owners[flight.wait] = &flight;
    if (flight.replicas.start)
      owners[flight.replicas.start] = owners[flight.replicas.wait] = &flight;
    for (ArrayRef<Operation *> ops :
         {ArrayRef<Operation *>(flight.before),
          ArrayRef<Operation *>(flight.replicas.before),
          ArrayRef<Operation *>(flight.behind),
          ArrayRef<Operation *>(flight.after)})
      for (Operation *op : ops)
        owners[op] = &flight;
  });
}

bool ProgramSchedule::Builder::dependsOnSum(Operation *op) const {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
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
}

void ProgramSchedule::Builder::addToSpine(Operation *op) {
  indices[op] = schedule.spine.size();
  schedule.spine.push_back(op);
  schedule.slotSeconds.push_back(schedule.slotSeconds.back() +
                                 schedule.cost->getSeconds(op));
}

LogicalResult ProgramSchedule::Builder::splitOps() {
  llvm::DenseSet<StringAttr> written, writtenByTail;
  schedule.slotSeconds.push_back(0);
  std::optional<size_t> backward;
  for (Operation &op : schedule.block->without_terminator()) {
    bool ofSum = dependsOnSum(&op);
    if (Flight *owner = owners.lookup(&op)) {
      bool starts =
          &op == owner->start || llvm::is_contained(owner->before, &op);
      if (ofSum && starts)
        return failure();
      continue;
    }
    if (ofSum || isStaging(&op)) {
      tail.insert(&op);
      schedule.tail.push_back(&op);
      writtenByTail.insert_range(getWrittenStates(&op));
      continue;
    }
    if (auto load = dyn_cast<LoadOp>(op)) {
      StringAttr state = load.getStateAttr().getAttr();
      if (writtenByTail.contains(state))
        return failure();
      if (!written.contains(state)) {
        schedule.loads.push_back(&op);
        continue;
      }
    }
    for (StringAttr state : getWrittenStates(&op)) {
      if (writtenByTail.contains(state))
        return failure();
      written.insert(state);
    }
    if (!backward && isBackward(&op))
      backward = schedule.spine.size();
    addToSpine(&op);
  }
  schedule.backwardSlot = backward.value_or(schedule.getLastSlot());
  return success();
}

size_t ProgramSchedule::Builder::getSlot(Operation *op) const {
  auto it = indices.find(op);
  return it == indices.end() ? schedule.getLastSlot() : it->second;
}

void ProgramSchedule::Builder::findSlots() {
  auto readyAfter = [&](Operation *op, size_t &ready) {
    for (Value operand : op->getOperands())
      if (auto it = indices.find(operand.getDefiningOp()); it != indices.end())
        ready = std::max(ready, it->second + 1);
  };
  forEachFlight([&](Flight &flight) {
    readyAfter(flight.start, flight.ready);
    for (Operation *op : flight.before)
      readyAfter(op, flight.ready);
    flight.need = schedule.getLastSlot();
  });
  auto getNeed = [&](Operation *reader) {
    Flight *owner = owners.lookup(reader);
    if (!owner)
      return getSlot(reader);
    return owner->isGather ? owner->need : schedule.getLastSlot();
  };
  // A copy may be sent on by several gathers, whose needs are found first.
  for (bool copies : {false, true})
    for (Flight &flight : schedule.gathers) {
      if (isCopyStart(flight.start) != copies)
        continue;
      for (Operation *reader : flight.wait->getUsers())
        flight.need = std::min(flight.need, getNeed(reader));
      for (Operation *op : flight.after)
        for (Operation *reader : op->getUsers())
          flight.need = std::min(flight.need, getNeed(reader));
    }
}

void ProgramSchedule::Builder::findLastReads(LastReads &reads,
                                             LastReads &windowReads) const {
  size_t last = schedule.getLastSlot();
  auto note = [](LastReads &slots, StringAttr state, size_t slot) {
    size_t &known = slots[state];
    known = std::max(known, slot);
  };
  for (Operation *op : schedule.loads) {
    StringAttr state = cast<LoadOp>(op).getStateAttr().getAttr();
    forEachReader(op->getResult(0), [&](Operation *reader) {
      if (isStaging(reader))
        return; // what writes the state depends on it
      Flight *flight = owners.lookup(reader);
      note(reads, state,
           flight ? flight->need : std::min(getSlot(reader) + 1, last));
      if (flight && flight->isMapped)
        forEachReader(flight->wait.getResult(), [&](Operation *reader) {
          note(windowReads, state, std::min(getSlot(reader) + 1, last));
        });
    });
  }
}

void ProgramSchedule::Builder::delayUpdates() {
  LastReads lastReads, lastWindowReads;
  findLastReads(lastReads, lastWindowReads);
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
      slot = schedule.getLastSlot();
  }
}

void ProgramSchedule::Builder::orderFlights() {
  // A copy from the host in front of the gathers that send it on.
  auto getPlace = [](const Flight &flight) {
    return std::pair(flight.need, !isCopyStart(flight.start));
  };
  llvm::stable_sort(schedule.gathers, [&](const Flight &a, const Flight &b) {
    return getPlace(a) < getPlace(b);
  });
  llvm::stable_sort(schedule.reductions, [](const Flight &a, const Flight &b) {
    return a.ready < b.ready;
  });
  for (auto *flights : {&schedule.gathers, &schedule.reductions})
    for (auto [order, flight] : llvm::enumerate(*flights))
      flight.order = order;
}

std::optional<ProgramSchedule> ProgramSchedule::compute(func::FuncOp program,
                                                        const OpCost &cost) {
  return Builder(program.getBody().front(), cost).build();
}
