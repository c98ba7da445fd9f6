// The functions of a module, which are programs or rules.

#ifndef FSDP_DIALECT_FSDP_FUNCTIONS_H
#define FSDP_DIALECT_FSDP_FUNCTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

namespace fsdp {

/// Whether a function is an optimizer's rule.
bool isRule(mlir::Operation *function);

/// Whether a rule looks at whole matrices: its tensors then have a shape, where
/// a pointwise rule's are unranked.
bool isMatrixRule(mlir::func::FuncOp function);

/// The programs of a module: its functions without rules and declarations.
llvm::SmallVector<mlir::func::FuncOp> getPrograms(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_DIALECT_FSDP_FUNCTIONS_H
