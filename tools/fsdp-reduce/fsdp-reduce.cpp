// Makes a module that shows a defect smaller: mlir-reduce with our dialects.
//
//   fsdp-reduce step.mlir --reduction-tree="traversal-mode=0 test=shows.sh"
//
// shows.sh gets a file, and exits with 1 where the defect is still there.

#include "Colours.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  fsdp::honourNoColour();
  fsdp::identifyBadFlags();
  mlir::DialectRegistry registry;
  fsdp::registerDialects(registry);
  mlir::MLIRContext context(registry);
  bool hasFailed = mlir::failed(mlir::mlirReduceMain(argc, argv, context));
  if (hasFailed)
    fsdp::printIdentifierIfNone(fsdp::E::Ir);
  return hasFailed;
}
