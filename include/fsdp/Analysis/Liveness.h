// When a program's memory is in use.

#ifndef FSDP_ANALYSIS_LIVENESS_H
#define FSDP_ANALYSIS_LIVENESS_H

#include "fsdp/Analysis/Aliases.h"
#include "fsdp/Analysis/OffsetPlanner.h"
#include "fsdp/Analysis/Places.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// When each piece of memory of a program that is one block of ops in order is
/// in use. Ops are numbered from 0; inputs are there from -1 on; the return
/// reads at its own number. A collective uses its source and its destination
/// from its start to its wait; one on the stream of compute, its source at its
/// start only.
///
/// Memory of a value is that of its owner (see Aliases), and is
///
/// - a state's: that of a load, unless the program reads the load after it has
///   written the state, which makes it a copy; and that of what a store gives
///   to a state whose old value is not read any more once it is computed; and
///   that of what is copied into a state;
/// - the window's: what a mapped gather gives;
/// - the program's own.
///
/// It is in the arena of its state. What a fetch gives is on the device, what
/// an offload gives is on the host, and a call computes where its operands are.
class ProgramLiveness {
public:
  struct Storage {
    mlir::Value root;
    LiveBlock block;
    /// The state whose memory this is, or whose window; null for the program's
    /// own.
    StateOp state;
    int64_t arena = kDeviceArena;
  };

  /// Fails with an error where the program is not one block, or has an op
  /// that makes memory in a way that is not known.
  static mlir::FailureOr<ProgramLiveness> compute(mlir::func::FuncOp program);

  /// In the order of their roots.
  llvm::ArrayRef<Storage> getStorages() const { return storages; }
  const Aliases &getAliases() const { return aliases; }

  /// The storage of a value; null where it is not memory.
  const Storage *getStorage(mlir::Value value) const;
  /// The bytes of a value from the start of its storage.
  int64_t getOffset(mlir::Value value) const;

  /// The most bytes of the program's own at one time, each storage rounded up
  /// to 64.
  int64_t getPeakBytes() const;

  void dump(llvm::raw_ostream &os) const;
  LLVM_DUMP_METHOD void dump() const { dump(llvm::errs()); }
  /// Every use of a value lies within its storage's time.
  mlir::LogicalResult verify(mlir::func::FuncOp program) const;

private:
  explicit ProgramLiveness(mlir::Block &block) : aliases(block) {}

  Aliases aliases;
  llvm::SmallVector<Storage> storages;
  llvm::DenseMap<mlir::Value, size_t> indices; // of owners
};

/// Bytes of a module's states, each rounded up to 64.
int64_t getStateBytes(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_ANALYSIS_LIVENESS_H
