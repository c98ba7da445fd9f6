#ifndef FSDP_TARGET_PLANPROGRAMS_H
#define FSDP_TARGET_PLANPROGRAMS_H

#include "PlanSymbols.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Target/PlanExport.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>

namespace fsdp {

std::unique_ptr<plan::Place> toPlan(PlaceAttr place);

/// A program of commands, and the ops that they come from. Fails with an error
/// on the op that is none.
mlir::FailureOr<std::unique_ptr<plan::ProgramT>>
exportProgram(mlir::func::FuncOp function, const PlanSymbols &symbols,
              PlanOps::Program &ops);

} // namespace fsdp

#endif // FSDP_TARGET_PLANPROGRAMS_H
