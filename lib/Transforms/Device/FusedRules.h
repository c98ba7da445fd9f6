// Optimizer rules as one kernel.

#ifndef FSDP_LIB_TRANSFORMS_DEVICE_FUSEDRULES_H
#define FSDP_LIB_TRANSFORMS_DEVICE_FUSEDRULES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Makes a rule of torch.optim's Adam, AdamW or SGD a call of PyTorch's fused
/// kernel of the same optimizer, and gives its name. Empty, and nothing
/// changes, where the rule is of another one, or of SGD with dampening: its
/// first step differs from later ones by a flag, which a captured step could
/// not change.
llvm::StringRef fuseRule(mlir::func::FuncOp rule);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_DEVICE_FUSEDRULES_H
