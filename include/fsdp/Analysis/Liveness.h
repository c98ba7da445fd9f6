// When a program's memory is in use.

#ifndef FSDP_ANALYSIS_LIVENESS_H
#define FSDP_ANALYSIS_LIVENESS_H

#include "fsdp/Analysis/OffsetPlanner.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// Bytes from the first to past the last element of a static tensor: 0 where
/// it has none.
int64_t getSpanBytes(mlir::RankedTensorType type);

/// The tensor that is in memory for a value: its own type, a future's, or none
/// for what is not memory (`none`, scalars).
std::optional<mlir::RankedTensorType> getMemoryType(mlir::Value value);

/// When each piece of memory of a program that is one block of ops in order is
/// in use. Ops are numbered from 0; inputs are there from -1 on; the return
/// reads at its own number.
///
/// A view is memory of the value it looks into, a `fsdp.wait` of the collective
/// it ends. A load is the state's own memory, unless the program reads it after
/// it has written the state: then the load is a copy.
class ProgramLiveness {
public:
  struct Storage {
    mlir::Value root;
    LiveBlock block;
    /// The state whose memory this is; null for the program's own.
    StateOp state;
  };

  /// Fails with an error where the program is not one block, or has an op
  /// that makes memory in a way that is not known.
  static mlir::FailureOr<ProgramLiveness> compute(mlir::func::FuncOp program);

  /// In the order of their roots.
  llvm::ArrayRef<Storage> getStorages() const { return storages; }

  /// The value whose memory `value` is, or itself.
  mlir::Value getRoot(mlir::Value value) const;
  /// The storage of a value; null where it is not memory.
  const Storage *getStorage(mlir::Value value) const;

  /// The most bytes the program's own memory takes at any time.
  int64_t getPeakBytes() const;

  void dump(llvm::raw_ostream &os) const;
  LLVM_DUMP_METHOD void dump() const { dump(llvm::errs()); }
  /// Every use of a value lies within its storage's time.
  mlir::LogicalResult verify(mlir::func::FuncOp program) const;

private:
  llvm::SmallVector<Storage> storages;
  llvm::DenseMap<mlir::Value, mlir::Value> roots; // of aliases only
  llvm::DenseMap<mlir::Value, size_t> indices;    // of roots
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_LIVENESS_H
