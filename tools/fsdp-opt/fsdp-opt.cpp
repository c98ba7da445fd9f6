#include "PrintLocations.h"
#include "fsdp/Dialect/Registration.h"
#include "fsdp/Transforms/Passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  fsdp::printLocationsByDefault();
  mlir::DialectRegistry registry;
  fsdp::registerDialects(registry);
  mlir::registerTransformsPasses();
  fsdp::registerFSDPPasses();
  fsdp::registerPipelines();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "compiler of training steps\n", registry));
}
