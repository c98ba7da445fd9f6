// Optimizer rules as one kernel.

#ifndef FSDP_LIB_TRANSFORMS_DEVICE_FUSEDRULES_H
#define FSDP_LIB_TRANSFORMS_DEVICE_FUSEDRULES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Makes a rule that does, op for op, what torch.optim's Adam, AdamW or SGD do
/// a call of PyTorch's fused kernel of the same optimizer, and gives its name.
/// Empty, and nothing changes, where the rule is none of these, is fused
/// already, or is SGD with dampening: its first step differs from later ones by
/// a flag, which a captured step could not change.
llvm::StringRef fuseRule(mlir::func::FuncOp rule);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_DEVICE_FUSEDRULES_H
