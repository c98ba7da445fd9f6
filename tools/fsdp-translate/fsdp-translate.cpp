// Between archives, the IR and plans.

#include "PrintLocations.h"
#include "fsdp/Target/PlanExport.h"
#include "fsdp/Target/TorchScriptImport.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

#include "llvm/ADT/SmallVector.h"

#include <string>
#include <vector>

/// The arguments with the second file of `--plan-diff A B` as a flag: the
/// machinery of translations takes one file.
static std::vector<std::string> nameSecondPlan(int argc, char **argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  auto is = [](llvm::StringRef argument, llvm::StringRef flag) {
    return argument.consume_front("-") &&
           (argument.consume_front("-"), argument == flag);
  };
  if (llvm::none_of(arguments, [&](llvm::StringRef argument) {
        return is(argument, "plan-diff");
      }))
    return arguments;
  unsigned files = 0;
  for (size_t i = 1; i < arguments.size(); ++i) {
    bool isFlag = llvm::StringRef(arguments[i]).starts_with("-");
    bool isValue =
        is(arguments[i - 1], "o") || is(arguments[i - 1], "trace-cluster");
    if (!isFlag && !isValue && ++files == 2)
      arguments[i] = ("--" + fsdp::kPlanDiffAfter + "=" + arguments[i]).str();
  }
  return arguments;
}

int main(int argc, char **argv) {
  fsdp::printLocationsByDefault();
  fsdp::registerTorchScriptImport();
  fsdp::registerPlanExport();
  fsdp::registerPlanToText();
  fsdp::registerPlanToTrace();
  fsdp::registerPlanDiff();
  std::vector<std::string> arguments = nameSecondPlan(argc, argv);
  llvm::SmallVector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return failed(
      mlir::mlirTranslateMain(argc, pointers.data(), "fsdp-mlir translations"));
}
