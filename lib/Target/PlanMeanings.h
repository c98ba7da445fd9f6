// What programs say of the sequential step.

#ifndef FSDP_TARGET_PLANMEANINGS_H
#define FSDP_TARGET_PLANMEANINGS_H

#include "PlanSymbols.h"
#include "plan/meaning/Meanings.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// `fsdp.meaning` of a program, by the numbers that `program` and the plan's
/// states have; empty where it has none. What names nothing is left out.
plan::Computations readMeanings(mlir::func::FuncOp function,
                                const PlanSymbols &symbols,
                                const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_TARGET_PLANMEANINGS_H
