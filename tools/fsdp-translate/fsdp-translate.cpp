// Between archives, the IR and plans.

#include "CheckFiles.h"
#include "Colours.h"
#include "EndProgram.h"
#include "FileArguments.h"
#include "Help.h"
#include "PrintLocations.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Target/PlanExport.h"
#include "fsdp/Target/TorchScriptImport.h"
#include "plan/NearestName.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace {
struct NamedTranslation {
  llvm::StringLiteral name;
  void (*add)();
};
} // namespace

static constexpr NamedTranslation translations[] = {
    {"import-torchscript", fsdp::registerTorchScriptImport},
    {"fsdp-to-plan", fsdp::registerPlanExport},
    {"plan-to-text", fsdp::registerPlanToText},
    {"plan-to-json", fsdp::registerPlanToJson},
    {"plan-to-trace", fsdp::registerPlanToTrace},
    {"plan-diff", fsdp::registerPlanDiff},
};

/// What is wrong where no translation is asked for, of which LLVM would say
/// that each of them is needed, or several; nothing where one is, or LLVM's own
/// help.
static std::string explainRequest(llvm::ArrayRef<std::string> arguments) {
  std::vector<std::string> flags;
  for (const NamedTranslation &translation : translations)
    flags.push_back(("--" + translation.name).str());
  std::string misspelt, asked;
  for (llvm::StringRef argument : arguments.drop_front()) {
    if (!argument.starts_with("-"))
      continue;
    llvm::StringRef name = argument.ltrim('-').split('=').first;
    std::string flag = ("--" + name).str();
    if (name == "version" || name.starts_with("help"))
      return "";
    if (llvm::is_contained(flags, flag)) {
      if (!asked.empty() && asked != flag)
        return asked + " and " + flag +
               " are two translations; give one at a time";
      asked = flag;
      continue;
    }
    std::string hint = llvm::cl::getRegisteredOptions().contains(name)
                           ? ""
                           : fsdp::nearestHint(flag, flags);
    if (misspelt.empty() && !hint.empty())
      misspelt = "there is no flag " + flag + hint;
  }
  if (!asked.empty())
    return "";
  return misspelt.empty()
             ? "no translation is asked for; give --import-torchscript for an "
               "archive, --fsdp-to-plan for lowered IR, or --plan-to-text, "
               "--plan-to-json, --plan-to-trace or --plan-diff for a plan"
             : misspelt;
}

static constexpr llvm::StringLiteral help =
    R"(fsdp-translate: between archives, IR and plans.

  fsdp-translate --import-torchscript step.pt -o step.mlir
  fsdp-translate --fsdp-to-plan step.fsdp.mlir -o step.plan

  FILE                    what is read; -: stdin
  -o FILE                 the result; default: stdout

Translate
  --import-torchscript    an archive, as python -m fsdp_mlir.export writes it, to IR
  --fsdp-to-plan          lowered IR to a plan, checked

Look at a plan; each checks it first
  --plan-to-text          every state and command
  --plan-to-json          facts and predictions, for programs (docs/report.md)
  --plan-to-trace         a predicted step, for ui.perfetto.dev (docs/tracing.md)
  --plan-diff A B         what a second plan changes
  --trace-cluster=NAME    predict for this preset or TOML file, not for the plan's own
  --trace-all-ranks       a trace with a process for each rank

  --help-all              every flag, MLIR's and LLVM's among them
  --version
)";

int main(int argc, char **argv) {
  fsdp::identifyFullDisk();
  if (fsdp::printedHelp({argv, size_t(argc)}, help))
    return 0;
  fsdp::honourNoColour();
  fsdp::identifyBadFlags();
  fsdp::printLocationsByDefault();
  for (const NamedTranslation &translation : translations)
    translation.add();
  mlir::registerMLIRContextCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  std::vector<std::string> arguments(argv, argv + argc);
  fsdp::nameSecondPlan(arguments);
  if (std::string wrong = explainRequest(arguments); !wrong.empty()) {
    fsdp::printError(fsdp::Error(fsdp::E::Flag, wrong));
    return 1;
  }
  if (failed(fsdp::checkFiles(arguments)))
    return 1;
  llvm::SmallVector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  bool hasFailed = failed(
      mlir::mlirTranslateMain(argc, pointers.data(), "fsdp-mlir translations"));
  if (hasFailed)
    fsdp::printIdentifierIfNone(fsdp::E::Ir);
  llvm::llvm_shutdown(); // prints statistics, where they were asked for
  llvm::outs().flush();
  if (llvm::outs().has_error()) { // of which nobody hears at a quick end
    fsdp::printUnwritable("stdout", llvm::outs().error().message());
    hasFailed = true;
  }
  fsdp::endProgram(hasFailed);
}
