// A program taken apart into what has an order and what may move.
//
// Compute keeps its order: it is the spine. Collectives move along it, with
// what is only there for them, and what reads the sums of reductions (the
// optimizer) follows the waits.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_PROGRAMSCHEDULE_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_PROGRAMSCHEDULE_H

#include "Overlap/Flight.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace fsdp {

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
  class Builder;
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
