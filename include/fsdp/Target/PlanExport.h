// From commands to a plan.

#ifndef FSDP_TARGET_PLANEXPORT_H
#define FSDP_TARGET_PLANEXPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <string>

namespace fsdp {

/// The plan file of a module in the commands phase: a walk that changes
/// nothing. The result has passed the plan's own checker. Fails with an error
/// on the op that no plan can hold, or that names the pass to run first.
mlir::FailureOr<std::string> exportPlan(mlir::ModuleOp module);

/// Registers `--fsdp-to-plan` with mlir-translate's machinery.
void registerPlanExport();

/// Registers `--plan-to-text`, which checks a plan file and prints it.
void registerPlanToText();

} // namespace fsdp

#endif // FSDP_TARGET_PLANEXPORT_H
