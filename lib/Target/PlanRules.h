// The rules of updates.

#ifndef FSDP_TARGET_PLANRULES_H
#define FSDP_TARGET_PLANRULES_H

#include "PlanSymbols.h"
#include "fsdp/Target/PlanExport.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>

namespace fsdp {

/// A rule: calls and step scalars. `calls` gets the ops that its calls come
/// from. Fails with an error on the op that cannot be in one.
mlir::FailureOr<std::unique_ptr<plan::RuleT>>
exportRule(mlir::func::FuncOp function, const PlanSymbols &symbols,
           PlanOps::List &calls);

} // namespace fsdp

#endif // FSDP_TARGET_PLANRULES_H
