// What an optimizer's step does to a parameter, as a function.

#ifndef FSDP_LIB_TARGET_RULEIMPORT_H
#define FSDP_LIB_TARGET_RULEIMPORT_H

#include "ArchiveMetadata.h"
#include "AtenCallImport.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fsdp {

/// Builds a rule at the builder's insertion point: a private function of the
/// parameter, the gradient and the states, on tensors of any shape, which says
/// by which optimizer it is. Throws ArchiveError where `graph` is not what the
/// rule describes, or draws random numbers.
mlir::func::FuncOp importRule(mlir::OpBuilder &builder, AtenCallImporter &calls,
                              const OptimizerInfo &optimizer,
                              const RuleInfo &rule, const TorchGraph &graph);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_RULEIMPORT_H
