// Optimizers as functions.

#ifndef FSDP_LIB_TARGET_OPTIMIZERRULES_H
#define FSDP_LIB_TARGET_OPTIMIZERRULES_H

#include "ArchiveMetadata.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace fsdp {

/// Names of the optimizer state that each parameter of a group has, in the
/// order of the rule's operands: "exp_avg". A state's symbol is
/// "parameter/name".
std::vector<std::string> getStateNames(const OptimizerInfo &optimizer,
                                       const GroupInfo &group);

/// Builds the rule of a group at the builder's insertion point: a private
/// function of the parameter, the gradient and the states, with the bits of
/// PyTorch's for-loop implementation. Operands are unranked tensors of
/// `elementType`. Throws ArchiveError where the optimizer has another
/// implementation.
mlir::func::FuncOp buildRule(mlir::OpBuilder &builder, llvm::StringRef name,
                             const OptimizerInfo &optimizer, unsigned group,
                             mlir::Type elementType);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_OPTIMIZERRULES_H
