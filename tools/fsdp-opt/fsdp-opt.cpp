#include "PrintLocations.h"
#include "fsdp/Dialect/Registration.h"
#include "fsdp/Transforms/Passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

// `tools/dev docs` makes docs/options.md of it.
static llvm::cl::opt<bool>
    printOptions("fsdp-options",
                 llvm::cl::desc("print the pipelines' options as Markdown"),
                 llvm::cl::callback([](const bool &) {
                   fsdp::printPipelineOptions(llvm::outs());
                   llvm::outs().flush();
                   std::exit(0);
                 }));

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
