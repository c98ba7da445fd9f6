// From an archive to the IR.

#ifndef FSDP_TARGET_TORCHSCRIPTIMPORT_H
#define FSDP_TARGET_TORCHSCRIPTIMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fsdp {

/// Imports the bytes of a TorchScript archive that `fsdp_mlir.export` wrote:
/// a module in the captured phase. Every digest in the archive is compared
/// before any of it is parsed as TorchScript.
///
/// Throws what is wrong and how to mend it; the text follows the archive's
/// name: "step.pt <error>".
mlir::OwningOpRef<mlir::ModuleOp> importTorchScript(llvm::StringRef archive,
                                                    mlir::MLIRContext *context);

/// Registers `--import-torchscript` with mlir-translate's machinery.
void registerTorchScriptImport();

} // namespace fsdp

#endif // FSDP_TARGET_TORCHSCRIPTIMPORT_H
