// The sequential step as a plan's program.

#ifndef FSDP_TARGET_CAPTUREDPROGRAMS_H
#define FSDP_TARGET_CAPTUREDPROGRAMS_H

#include "PlanSymbols.h"
#include "plan/PlanTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>

namespace fsdp {

/// The program of a captured function: calls and updates, and copies for loads
/// and stores. Its values have no places, so that it can be followed but not
/// run. Fails, with an error, on an op that is none of a captured step.
mlir::FailureOr<std::unique_ptr<plan::ProgramT>>
exportCapturedProgram(mlir::func::FuncOp function, const PlanSymbols &symbols);

} // namespace fsdp

#endif // FSDP_TARGET_CAPTUREDPROGRAMS_H
