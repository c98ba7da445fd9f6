// Which states an op reads and writes.

#ifndef FSDP_LIB_DIALECT_FSDP_STATEACCESS_H
#define FSDP_LIB_DIALECT_FSDP_STATEACCESS_H

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fsdp {

using Effects = llvm::SmallVectorImpl<
    mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>>;

/// The state that `name` refers to, or null after an error on `op`.
StateOp lookupState(mlir::Operation *op, mlir::SymbolTableCollection &tables,
                    mlir::FlatSymbolRefAttr name);

/// The rule that `name` refers to, a function with a body; or null after an
/// error on `op`.
mlir::FunctionOpInterface lookupRule(mlir::Operation *op,
                                     mlir::SymbolTableCollection &tables,
                                     mlir::FlatSymbolRefAttr name);

/// The states that an op says it reads and writes exist.
mlir::LogicalResult verifyStates(StateAccessOpInterface op,
                                 mlir::SymbolTableCollection &tables);

/// A read and a write of each state that the op says it reads and writes.
inline void addStateEffects(StateAccessOpInterface op, Effects &effects) {
  for (mlir::FlatSymbolRefAttr state : op.getReadStates())
    effects.emplace_back(mlir::MemoryEffects::Read::get(), state,
                         StateResource::get());
  for (mlir::FlatSymbolRefAttr state : op.getWrittenStates())
    effects.emplace_back(mlir::MemoryEffects::Write::get(), state,
                         StateResource::get());
}

/// What an update, or its command, reads and writes: the parameter, but where
/// it is staged, and the optimizer states.
template <typename UpdateT>
llvm::SmallVector<mlir::FlatSymbolRefAttr> getUpdatedStates(UpdateT update) {
  llvm::SmallVector<mlir::FlatSymbolRefAttr> states;
  if (!update.getStaged())
    states.push_back(update.getParameterAttr());
  llvm::append_range(
      states,
      update.getStates().template getAsRange<mlir::FlatSymbolRefAttr>());
  return states;
}

} // namespace fsdp

#endif // FSDP_LIB_DIALECT_FSDP_STATEACCESS_H
