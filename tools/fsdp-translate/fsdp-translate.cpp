// Between archives, the IR and plans.

#include "PrintLocations.h"
#include "fsdp/Target/PlanExport.h"
#include "fsdp/Target/TorchScriptImport.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

int main(int argc, char **argv) {
  fsdp::printLocationsByDefault();
  fsdp::registerTorchScriptImport();
  fsdp::registerPlanExport();
  fsdp::registerPlanToText();
  return failed(mlir::mlirTranslateMain(argc, argv, "fsdp-mlir translations"));
}
