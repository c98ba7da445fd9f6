// A program of a training step, as a function.

#ifndef FSDP_LIB_TARGET_PROGRAMIMPORT_H
#define FSDP_LIB_TARGET_PROGRAMIMPORT_H

#include "ArchiveMetadata.h"
#include "AtenCallImport.h"

namespace fsdp {

/// What an update of a parameter takes.
struct ParameterUpdate {
  mlir::FlatSymbolRefAttr rule;
  llvm::SmallVector<mlir::Attribute> states; // symbols of the optimizer's
  std::string missed; // who counts the steps without a gradient; empty: nobody
};

/// What programs ask of the states that stand in the module.
struct ImportedStates {
  /// By fully qualified name, of each state; an archive may name others.
  llvm::StringMap<mlir::FlatSymbolRefAttr> symbols;
  llvm::StringMap<mlir::Type> elementTypes; // of each parameter
  llvm::StringMap<ParameterUpdate> updates; // of each one that is updated
};

/// Builds the program `name` at the builder's insertion point: a function of
/// the inputs that loads parameters, calls the nodes of `graph`, stores buffers
/// and updates parameters. Throws ArchiveError where `graph` is not what the
/// metadata describe.
void importProgram(mlir::OpBuilder &builder, AtenCallImporter &calls,
                   const ArchiveMetadata &metadata,
                   const ImportedStates &states, const std::string &name,
                   const TorchGraph &graph);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_PROGRAMIMPORT_H
