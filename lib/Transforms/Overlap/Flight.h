// What a schedule moves: collectives and copies, with what is there for them.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_FLIGHT_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_FLIGHT_H

#include "fsdp/Analysis/OpCost.h"

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
  llvm::StringRef unit;
  std::optional<ProgramRegion> region; // of what is gathered or fetched
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

/// The flight of a collective or of a copy that no collective's flight
/// contains. When its inputs are there, and when its result is needed, is for
/// the schedule to say.
Flight makeFlight(StartOpInterface start, const OpCost &cost);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_FLIGHT_H
