// Steps whose updates are skipped, since a gradient is not finite.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_SKIPPEDSTEPS_H
#define FSDP_LIB_TRANSFORMS_SHARD_SKIPPEDSTEPS_H

#include "Shard/GradientNorms.h"

#include "mlir/IR/IRMapping.h"

namespace fsdp {

/// Reads a state of the module that `builder` is in.
mlir::Value loadState(mlir::OpBuilder &builder, mlir::Location loc,
                      llvm::StringRef name);

/// The buffer that counts the steps which leave an update's parameter alone, by
/// its rule; null: each step updates it.
mlir::FlatSymbolRefAttr getMissed(UpdateOp update);

/// 1 where a number is zero, else 0, as a float32; of each in a list.
mlir::Value isZero(ScalarCalls &scalars, mlir::Value number);

/// Skips an update of `last`, the program of a step's last micro-batch, where
/// no micro-batch has a gradient. The program of the others, `accumulate`, is a
/// clone with its values.
void joinSkips(mlir::func::FuncOp last, mlir::func::FuncOp accumulate,
               const mlir::IRMapping &values);

/// Skips a program's updates, which move to its end, where a gradient of any
/// rank is not finite: returns 1 there and else 0, a tensor<f32> that is the
/// same on all ranks. What else updates are skipped on still holds, but counts
/// no step that is skipped as a whole. `builder` is at the program's end. Fails,
/// with an error, as Gradients::collect() does.
mlir::FailureOr<mlir::Value> skipUpdates(mlir::OpBuilder &builder,
                                         mlir::Location loc,
                                         llvm::ArrayRef<UpdateOp> updates);

/// Adds to the number of skipped steps, which is the program's output
/// `skipped_steps`. Fails, with an error, where the program cannot have it.
mlir::LogicalResult countSkippedStep(mlir::OpBuilder &builder,
                                     mlir::Location loc,
                                     mlir::func::FuncOp program,
                                     mlir::Value skipped);

/// Steps that were skipped do not count for the module's rules: Adam's bias
/// correction and SGD's first step follow what was done. Fails, with an error,
/// where numbers of a rule follow from each step before, skipped ones too.
mlir::LogicalResult countDoneSteps(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_SKIPPEDSTEPS_H
