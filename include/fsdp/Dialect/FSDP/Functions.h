// The functions of a module: programs and rules, by what they say of
// themselves.

#ifndef FSDP_DIALECT_FSDP_FUNCTIONS_H
#define FSDP_DIALECT_FSDP_FUNCTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

namespace fsdp {

/// On a rule: a unit attribute.
inline constexpr llvm::StringLiteral kRuleAttrName = "fsdp.rule";

/// On a program: the one that does the same for batches of another shape; the
/// name of the turn that it is; the program of the turn behind it.
inline constexpr llvm::StringLiteral kVariantOfAttrName = "fsdp.variant_of";
inline constexpr llvm::StringLiteral kTurnAttrName = "fsdp.turn";
inline constexpr llvm::StringLiteral kNextAttrName = "fsdp.next";

/// On an argument of a program: the input's name, and whether it has one value
/// in all steps.
inline constexpr llvm::StringLiteral kInputAttrName = "fsdp.input";
inline constexpr llvm::StringLiteral kRepeatAttrName = "fsdp.repeat";
/// On a result of a program: the output's name.
inline constexpr llvm::StringLiteral kOutputAttrName = "fsdp.output";

/// On a call that backward begins with: a unit attribute.
inline constexpr llvm::StringLiteral kCotangentAttrName = "fsdp.cotangent";

/// Whether a function is the rule of updates.
bool isRule(mlir::Operation *function);

/// Whether it is one that looks at whole matrices: it is of tensors of one
/// shape.
bool isMatrixRule(mlir::func::FuncOp function);

/// The programs of a module: its functions, less rules and declarations.
llvm::SmallVector<mlir::func::FuncOp> getPrograms(mlir::ModuleOp module);

} // namespace fsdp

#endif // FSDP_DIALECT_FSDP_FUNCTIONS_H
