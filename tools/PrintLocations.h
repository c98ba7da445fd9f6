#ifndef FSDP_TOOLS_PRINTLOCATIONS_H
#define FSDP_TOOLS_PRINTLOCATIONS_H

#include "mlir/IR/AsmState.h"
#include "llvm/Support/CommandLine.h"

namespace fsdp {

/// Prints locations unless `--mlir-print-debuginfo=false` says otherwise: they
/// carry the module paths that errors and plans name, and a tool that left
/// them out would lose them for the next one.
inline void printLocationsByDefault() {
  mlir::registerAsmPrinterCLOptions();
  auto *option = static_cast<llvm::cl::opt<bool> *>(
      llvm::cl::getRegisteredOptions().lookup("mlir-print-debuginfo"));
  if (option)
    option->setInitialValue(true);
}

} // namespace fsdp

#endif // FSDP_TOOLS_PRINTLOCATIONS_H
