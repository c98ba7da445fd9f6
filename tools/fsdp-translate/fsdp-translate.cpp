//===- fsdp-translate.cpp - Between archives, the IR and plans ------------===//

#include "fsdp/Target/TorchScriptImport.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

int main(int argc, char **argv) {
  fsdp::registerTorchScriptImport();
  return failed(mlir::mlirTranslateMain(argc, argv, "fsdp-mlir translations"));
}
