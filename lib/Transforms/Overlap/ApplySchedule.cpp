// Puts a program's ops in the order that was decided.

#include "Overlap/ProgramSchedule.h"
#include "Overlap/ReadyTail.h"

#include <deque>
#include <limits>

using namespace mlir;
using namespace fsdp;

/// Behind every slot: what may run when the spine is through alone.
static constexpr size_t kNeverBeforeEnd = std::numeric_limits<size_t>::max();

/// Writes down the new order.
class ProgramSchedule::Emitter {
public:
  Emitter(ProgramSchedule &schedule, bool updatesLast)
      : schedule(schedule), updatesLast(updatesLast),
        last(schedule.getLastSlot()) {
    for (auto *flights : {&schedule.gathers, &schedule.reductions})
      for (Flight &flight : *flights) {
        owners[flight.getLastWait()] = &flight;
        for (Operation *op : flight.after)
          owners[op] = &flight;
      }
    for (Operation *op : schedule.tail)
      tail.add(op, isOnDemand(op), getEarliest(op), getTriggers(op));
  }

  SmallVector<Operation *> order;
  SmallVector<size_t> slots;

  void run() {
    for (Operation *load : schedule.loads)
      emit(load);
    for (slot = 0; slot <= last; ++slot) {
      Operation *next = slot < last ? schedule.spine[slot] : nullptr;
      // Gradients are sent before more is gathered: FSDP2's order, which needs
      // less memory. Else communication begins as early as it can.
      if (updatesLast)
        reduce();
      if (next)
        emitOperands(next);
      waitForReductions(/*startedBefore=*/slot);
      while (gathered < schedule.gathers.size() &&
             schedule.gathers[gathered].startSlot <= slot)
        startGather();
      reduce();
      if (next)
        emit(next);
    }
    slot = last;
    tail.advanceTo(kNeverBeforeEnd);
    for (Operation *op : schedule.tail)
      if (!emitted.contains(op) && !isOnDemand(op)) {
        round += isa<UpdateOp>(op);
        emitOperands(op);
        emitWithCopies(op);
      }
    for (Operation *op : schedule.tail)
      if (!emitted.contains(op))
        emit(op);
    emitOperands(schedule.block->getTerminator());
  }

private:
  void emit(Operation *op) {
    emitted.insert(op);
    tail.noteEmitted(op);
    order.push_back(op);
    slots.push_back(slot);
  }

  /// Waits for the gathers that `op` reads.
  void emitOperands(Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        if (Flight *flight = owners.lookup(def);
            flight && flight->isGather && !emitted.contains(def)) {
          // In the order of starts, which is that of the list.
          do {
            if (received == gathered)
              startGather();
            receive(schedule.gathers[received++]);
          } while (!emitted.contains(def));
        }
  }

  void start(Flight &flight) {
    for (Operation *op : flight.before) {
      emitOperands(op);
      emit(op);
    }
    emitOperands(flight.start);
    emit(flight.start);
    // What the updates behind it change is copied meanwhile.
    for (UpdateOp update : flight.updates)
      if (!updatesLast && !schedule.held.contains(update))
        emitStaging(update);
    if (!flight.replicas.start)
      emitBehind(flight);
  }
  void emitBehind(Flight &flight) {
    for (Operation *op : flight.behind)
      emit(op);
  }
  void startGather() { start(schedule.gathers[gathered++]); }

  /// Starts what is due, each behind the waits that it allows.
  void reduce() {
    waitForReductions(/*startedBefore=*/slot);
    while (reduced < schedule.reductions.size() &&
           schedule.reductions[reduced].startSlot <= slot) {
      start(schedule.reductions[reduced++]);
      waitForReductions(/*startedBefore=*/slot + 1);
    }
  }

  /// Waits for those that are due, among the started ones.
  void waitForReductions(size_t startedBefore) {
    while (waited < reduced && schedule.reductions[waited].waitSlot <= slot &&
           schedule.reductions[waited].startSlot < startedBefore)
      waitForReduction();
    waitForReplicas();
  }

  void receive(Flight &flight) {
    emit(flight.getLastWait());
    for (Operation *op : flight.after)
      emit(op);
  }

  void waitForReduction() {
    // What was held back runs while the last reductions are under way.
    if (slot == last)
      emitUpdates();
    Flight &flight = schedule.reductions[waited++];
    if (!flight.replicas.start)
      return finish(flight);
    emit(flight.wait);
    for (Operation *op : flight.replicas.before)
      emit(op);
    emit(flight.replicas.start);
    emitBehind(flight);
  }

  /// Waits for the sums over replicas that should be through.
  void waitForReplicas() {
    for (; summed < waited && schedule.reductions[summed].endSlot <= slot;
         ++summed) {
      Flight &flight = schedule.reductions[summed];
      if (!flight.replicas.start)
        continue;
      if (slot == last)
        emitUpdates();
      finish(flight);
    }
  }

  void finish(Flight &flight) {
    receive(flight);
    emitUpdates();
  }

  /// What of the tail has its operands and may run now.
  void emitUpdates() {
    ++round;
    tail.advanceTo(slot);
    for (Operation *op = tail.getFirst(); op; op = tail.getNext(op))
      emitWithCopies(op);
  }

  /// The first slot at which an op of the tail may run.
  size_t getEarliest(Operation *op) {
    if (updatesLast && isa<UpdateOp>(op))
      return kNeverBeforeEnd;
    return schedule.held.contains(op) ? last : schedule.earliest.lookup(op);
  }

  /// What must be there before an op of the tail: what computes its operands;
  /// of what comes on demand the start of the copy, where that does not come on
  /// demand too.
  SmallVector<Operation *> getTriggers(Operation *op) {
    SmallVector<Operation *> triggers;
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (def && isOnDemand(def) && !isStaging(def)) {
        if (isa<UnpackOp>(def))
          def = def->getOperand(0).getDefiningOp();
        def = cast<WaitOp>(def).getFuture().getDefiningOp();
        if (isStaging(def))
          continue;
      }
      if (def)
        triggers.push_back(def);
    }
    return triggers;
  }

  // The tail's copies from and to the host. They are started as early as
  // possible, but for those of staged parameters, which take memory; and waited
  // for as late: in front of the first reader, or of the next round's copies.

  /// Whether `op` waits for one of them.
  bool isTailWait(Operation *op) {
    return isCopyWait(op) && !owners.contains(op);
  }
  /// Whether `op` is emitted with what reads it, as what unpacks a bucket is.
  bool isOnDemand(Operation *op) {
    Operation *bucket =
        isa<UnpackOp>(op) ? op->getOperand(0).getDefiningOp() : nullptr;
    return isStaging(op) || isTailWait(bucket ? bucket : op);
  }
  void emitOnDemand(Operation *op) {
    if (emitted.contains(op))
      return;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && isOnDemand(def))
        emitOnDemand(def);
    emit(op);
  }

  void emitStaging(UpdateOp update) {
    if (Operation *copy = getStaging(update); copy && !emitted.contains(copy))
      emit(copy);
  }

  /// Emits an op of the tail behind the waits for the copies that it reads.
  void emitWithCopies(Operation *op) {
    if (auto update = dyn_cast<UpdateOp>(op)) {
      emitStaging(update);
      // One ahead: the copy that the next update changes.
      if (Operation *other = tail.getFirstStagedBut(op))
        emitStaging(cast<UpdateOp>(other));
    }
    emitOnDemand(op);
    if (!isCopyStart(op))
      return;
    while (!underWay.empty() && underWay.front().second < round) {
      if (Operation *wait = underWay.front().first; !emitted.contains(wait))
        emit(wait);
      underWay.pop_front();
    }
    underWay.push_back({*op->user_begin(), round});
  }

  ProgramSchedule &schedule;
  bool updatesLast;
  size_t last, slot = 0;
  ReadyTail tail;
  llvm::DenseMap<Operation *, Flight *> owners;
  llvm::DenseSet<Operation *> emitted;
  size_t gathered = 0, received = 0, reduced = 0, waited = 0, summed = 0;
  size_t round = 0;                                    // of updates
  std::deque<std::pair<Operation *, size_t>> underWay; // waits for copies
};

SmallVector<size_t> ProgramSchedule::apply(bool updatesLast) {
  // Starts stand in the order of the list.
  for (auto *flights : {&gathers, &reductions}) {
    size_t next = getLastSlot();
    for (Flight &flight : llvm::reverse(*flights))
      if (flight.isGather)
        flight.startSlot = next = std::min(flight.startSlot, next);
    size_t previous = 0, previousWait = 0, previousEnd = 0;
    for (Flight &flight : *flights) {
      flight.startSlot = previous =
          std::max({flight.startSlot, flight.ready, previous});
      if (flight.isGather)
        continue;
      flight.waitSlot = previousWait =
          std::max({flight.waitSlot, flight.startSlot, previousWait});
      flight.endSlot = previousEnd =
          std::max({flight.endSlot, flight.waitSlot, previousEnd});
    }
  }
  Emitter emitter(*this, updatesLast);
  emitter.run();
  for (Operation *op : emitter.order)
    op->moveBefore(block->getTerminator());
  return std::move(emitter.slots);
}

void ProgramSchedule::holdUpdates(double seconds) {
  held.clear();
  // Those of the last reductions come last in any case, and do not fill.
  llvm::DenseSet<Operation *> late;
  for (Flight &flight : reductions)
    if (flight.endSlot == getLastSlot()) {
      late.insert(flight.getLastWait());
      late.insert(flight.after.begin(), flight.after.end());
    }
  for (Operation *op : tail)
    if (llvm::any_of(op->getOperands(), [&](Value operand) {
          return late.contains(operand.getDefiningOp());
        }))
      late.insert(op);
  for (Operation *op : llvm::reverse(tail)) {
    if (seconds <= 0)
      return;
    if (!isa<UpdateOp>(op) || late.contains(op))
      continue;
    held.insert(op);
    seconds -= cost->getSeconds(op);
  }
}
