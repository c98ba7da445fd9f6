// A program taken apart into what has an order and what may move.
//
// Compute keeps its order: it is the spine. Collectives move along it, with
// what is only there for them, and what reads the sums of reductions (the
// optimizer) follows the waits.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_PROGRAMSCHEDULE_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_PROGRAMSCHEDULE_H

#include "fsdp/Analysis/OpCost.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace fsdp {

/// The all-reduce that adds up over replicas what a reduction gives: it starts
/// where that is waited for.
struct ReplicaSum {
  /// What adds the sums of earlier micro-batches to the reduction's result.
  llvm::SmallVector<mlir::Operation *, 0> before;
  StartOpInterface start; // null: there is none
  WaitOp wait;
  double seconds = 0; // predicted
};

/// Whether an op starts a copy from or to the host, or waits for one.
inline bool isCopyStart(mlir::Operation *op) {
  return llvm::isa<StartOpInterface>(op) &&
         !llvm::isa<CollectiveOpInterface>(op);
}
inline bool isCopyWait(mlir::Operation *op) {
  auto wait = llvm::dyn_cast<WaitOp>(op);
  return wait && isCopyStart(wait.getFuture().getDefiningOp());
}

/// What starts the copy of a parameter that the update changes; null where it
/// changes the parameter itself, or what another update gives.
mlir::Operation *getStaging(UpdateOp update);

/// Whether an op starts such a copy.
bool isStaging(mlir::Operation *op);

/// A collective from its start to its wait, with the copy from or to the host
/// that leads to it or follows it; or such a copy alone. Slot i is the place in
/// front of op i of the spine; the last slot is behind them all.
struct Flight {
  StartOpInterface start;
  WaitOp wait;
  ReplicaSum replicas;                            // of a reduction
  llvm::SmallVector<mlir::Operation *, 1> before; // the pack, or the fetch
  llvm::SmallVector<mlir::Operation *, 2> behind; // the last start: the offload
  llvm::SmallVector<mlir::Operation *, 1> after;  // the unpack
  llvm::SmallVector<UpdateOp, 1> updates;         // staged, of this sum alone
  /// What compute reads is gathered, or fetched; else reduced, or offloaded.
  bool isGather = false, isMapped = false;
  llvm::StringRef unit, region;
  int64_t bytes = 0;  // of source and destination, in use during the flight
  double seconds = 0; // predicted
  /// The first slot at which its inputs are there.
  size_t ready = 0;
  /// The slot of its first reader; of a reduction the last slot.
  size_t need = 0;
  /// Its place among the gathers, or the reductions, in order of need.
  size_t order = 0;

  // What a schedule decides.
  size_t startSlot = 0;
  /// Of reductions; a gather is waited for in front of its first reader.
  size_t waitSlot = 0;
  /// Of reductions: the sum is there, over replicas too.
  size_t endSlot = 0;

  WaitOp getLastWait() const { return replicas.start ? replicas.wait : wait; }
};

class ProgramSchedule {
public:
  /// Nothing where the program cannot be taken apart: a collective depends on
  /// the sum of another, or a state is read again after its update.
  static std::optional<ProgramSchedule> compute(mlir::func::FuncOp program,
                                                const OpCost &cost);

  llvm::ArrayRef<mlir::Operation *> getSpine() const { return spine; }
  size_t getLastSlot() const { return spine.size(); }
  /// Predicted seconds of the spine in front of each slot, without waiting.
  llvm::ArrayRef<double> getSlotSeconds() const { return slotSeconds; }
  /// The first slot whose op belongs to backward.
  size_t getBackwardSlot() const { return backwardSlot; }

  /// In the order in which they are started and waited for: at first that of
  /// need, of reductions that in which they are ready. A schedule may give
  /// gathers another one, as one channel has both orders.
  llvm::MutableArrayRef<Flight> getGathers() { return gathers; }
  llvm::MutableArrayRef<Flight> getReductions() { return reductions; }

  /// Keeps updates back until the spine is through, the last ones first, as
  /// many as fill `seconds`: there they run beside the last reductions.
  void holdUpdates(double seconds);

  /// Puts the block in the order that was decided. What reads a sum comes
  /// behind its wait as early as it may, or, with `updatesLast`, keeps its
  /// place at the end, but for the unpacking. Returns each op's slot, in order
  /// of the block.
  llvm::SmallVector<size_t> apply(bool updatesLast);

private:
  class Emitter;

  mlir::Block *block = nullptr;
  const OpCost *cost = nullptr;
  llvm::SmallVector<mlir::Operation *> loads, spine, tail;
  llvm::SmallVector<double> slotSeconds;
  size_t backwardSlot = 0;
  llvm::SmallVector<Flight, 0> gathers, reductions;
  /// The first slot at which an update no longer changes what is still read.
  llvm::DenseMap<mlir::Operation *, size_t> earliest;
  llvm::DenseSet<mlir::Operation *> held; // updates that wait for the last slot
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_PROGRAMSCHEDULE_H
