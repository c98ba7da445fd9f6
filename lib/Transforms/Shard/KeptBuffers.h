// What buffers had before a step of several micro-batches.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_KEPTBUFFERS_H
#define FSDP_LIB_TRANSFORMS_SHARD_KEPTBUFFERS_H

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Adds a buffer to the module that is zero before the first step, and that no
/// state_dict() has.
void addZeroState(mlir::ModuleOp module, llvm::StringRef name,
                  mlir::RankedTensorType type);

/// The values of buffers from before a step. Where it has several
/// micro-batches, the first one keeps them in states of their own, so that the
/// last one can put them back.
class KeptBuffers {
public:
  explicit KeptBuffers(mlir::ModuleOp module);

  /// The value that the buffer had before the step, in its last micro-batch,
  /// behind which nothing has stored it.
  mlir::Value load(mlir::OpBuilder &builder, mlir::Location loc,
                   StateOp buffer);
  /// At the end of the last micro-batch: the one that follows is a first one.
  void endStep(mlir::OpBuilder &builder, mlir::Location loc);

private:
  bool isStoredBefore(StateOp buffer);
  mlir::Value isFirst(mlir::Location loc);
  void keep(mlir::Location loc, StateOp buffer, llvm::StringRef name);

  mlir::ModuleOp module;
  mlir::func::FuncOp accumulate; // null: a step is one micro-batch
  mlir::Value first;             // in it; null: nothing is kept
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_KEPTBUFFERS_H
