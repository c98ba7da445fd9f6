// Makes a module that shows a defect smaller: mlir-reduce with our dialects.
//
//   fsdp-reduce step.mlir --reduction-tree="traversal-mode=0 test=shows.sh"
//
// shows.sh gets a file, and exits with 1 where the defect is still there.

#include "CheckFiles.h"
#include "Colours.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

/// Before LLVM, which has its own parser of flags, opens the module: a word
/// that names something, and is not the output, is a file and is to be a
/// regular one.
static mlir::LogicalResult checkInputs(llvm::ArrayRef<char *> words) {
  for (size_t i = 1; i < words.size(); ++i) {
    bool isOutput = llvm::StringRef(words[i - 1]).ltrim('-') == "o";
    if (!isOutput && llvm::sys::fs::exists(words[i]) &&
        failed(fsdp::checkInput(words[i])))
      return mlir::failure();
  }
  return mlir::success();
}

int main(int argc, char **argv) {
  fsdp::identifyFullDisk();
  fsdp::honourNoColour();
  fsdp::identifyBadFlags();
  mlir::DialectRegistry registry;
  fsdp::registerDialects(registry);
  mlir::MLIRContext context(registry);
  if (failed(checkInputs({argv, size_t(argc)})))
    return 1;
  bool hasFailed = mlir::failed(mlir::mlirReduceMain(argc, argv, context));
  if (hasFailed)
    fsdp::printIdentifierIfNone(fsdp::E::Ir);
  return hasFailed;
}
