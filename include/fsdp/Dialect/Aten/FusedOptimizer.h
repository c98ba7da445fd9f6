// Calls of PyTorch's fused optimizers.

#ifndef FSDP_DIALECT_ATEN_FUSEDOPTIMIZER_H
#define FSDP_DIALECT_ATEN_FUSEDOPTIMIZER_H

#include "mlir/IR/Builders.h"

namespace fsdp::aten {

/// A call of `_fused_adam`, `_fused_adamw` or `_fused_sgd` for one parameter,
/// with lists of one member each. `tensors` are the parameter, its gradient and
/// its states; `step` and `rate` are f64, `step` is for those that count steps.
/// `args` are all numbers and flags but the rate. Gives the new parameter and
/// states.
llvm::SmallVector<mlir::Value>
createFusedOptimizer(mlir::OpBuilder &builder, mlir::Location loc,
                     llvm::StringRef callee, mlir::ValueRange tensors,
                     mlir::Value step, mlir::Value rate,
                     llvm::ArrayRef<mlir::NamedAttribute> args);

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_FUSEDOPTIMIZER_H
