// The functions of a module: programs and rules, by what they say of
// themselves.

#ifndef FSDP_DIALECT_FSDP_FUNCTIONS_H
#define FSDP_DIALECT_FSDP_FUNCTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

namespace fsdp {

/// Whether a function is the rule of updates.
bool isRule(mlir::Operation *function);

/// Whether it is one that looks at whole matrices: it is of tensors of one
/// shape.
bool isMatrixRule(mlir::func::FuncOp function);

/// The programs of a module: its functions, less rules and declarations.
llvm::SmallVector<mlir::func::FuncOp> getPrograms(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_DIALECT_FSDP_FUNCTIONS_H
