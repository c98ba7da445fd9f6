#ifndef FSDP_TARGET_PLANPROGRAMS_H
#define FSDP_TARGET_PLANPROGRAMS_H

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "plan/PlanTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <memory>

namespace fsdp {

/// What programs name, by its number in the plan.
struct PlanSymbols {
  llvm::StringMap<int> units, states, rules;

  /// -1 where no unit is named.
  int findUnit(std::optional<llvm::StringRef> name) const {
    auto it = name ? units.find(*name) : units.end();
    return it == units.end() ? -1 : it->second;
  }
};

std::unique_ptr<plan::Place> toPlan(PlaceAttr place);

/// A program of commands. Fails with an error on the op that is none.
mlir::FailureOr<std::unique_ptr<plan::ProgramT>>
exportProgram(mlir::func::FuncOp function, const PlanSymbols &symbols);

} // namespace fsdp

#endif // FSDP_TARGET_PLANPROGRAMS_H
