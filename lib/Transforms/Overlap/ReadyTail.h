// Which ops of a tail may run.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_READYTAIL_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_READYTAIL_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <queue>
#include <set>

namespace fsdp {

/// The ops that follow the sums of reductions, in their order, and those of
/// them whose operands are there. An op is looked at when one of its operands
/// comes, and when its slot does; so what a round of updates costs does not
/// grow with all that still waits.
class ReadyTail {
public:
  /// Adds an op behind the others, before anything is emitted. It may run at
  /// the slot `earliest`, once all `triggers` are emitted. One that is
  /// `onDemand` comes with what reads it, and is never ready.
  void add(mlir::Operation *op, bool onDemand, size_t earliest,
           llvm::ArrayRef<mlir::Operation *> triggers);

  /// Any op has been emitted, of the tail or not.
  void noteEmitted(mlir::Operation *op);

  /// From now on, what may run at `slot` may run.
  void advanceTo(size_t slot);

  /// The first op that may run; null: none may.
  mlir::Operation *getFirst() const { return getFrom(ready, 0); }
  /// The first one behind `op`.
  mlir::Operation *getNext(mlir::Operation *op) const {
    return getFrom(ready, indices.lookup(op) + 1);
  }
  /// The first update of a staged parameter that may run, but `op`.
  mlir::Operation *getFirstStagedBut(mlir::Operation *op) const;

private:
  struct Entry {
    mlir::Operation *op;
    bool onDemand, staged;
    size_t earliest, missing; // triggers
  };
  using Indices = std::set<size_t>;
  using Due = std::pair<size_t, size_t>; // slot and index

  mlir::Operation *getFrom(const Indices &of, size_t index) const {
    auto it = of.lower_bound(index);
    return it == of.end() ? nullptr : entries[*it].op;
  }
  /// The op's operands are there.
  void release(size_t index);

  llvm::SmallVector<Entry, 0> entries;
  llvm::DenseMap<mlir::Operation *, size_t> indices;
  /// The entries that wait for an op, once for each operand.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<size_t, 2>> waiting;
  /// Of entries that have their operands: those that wait for a slot, and those
  /// that may run.
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> due;
  Indices ready, readyStaged;
  size_t slot = 0;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_READYTAIL_H
