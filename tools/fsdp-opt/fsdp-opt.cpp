#include "CheckIr.h"
#include "Colours.h"
#include "Help.h"
#include "PassNames.h"
#include "PrintLocations.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/Registration.h"
#include "fsdp/Transforms/Passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

/// What a flag does that prints a page and ends the program.
static llvm::cl::cb<void, const bool &>
printing(void (*page)(llvm::raw_ostream &)) {
  return llvm::cl::callback([page](const bool &) {
    page(llvm::outs());
    llvm::outs().flush();
    std::exit(0);
  });
}

// `tools/dev docs` makes docs/options.md and docs/clusters.md of them.
static llvm::cl::opt<bool>
    printOptions("fsdp-options",
                 llvm::cl::desc("print the pipelines' options as Markdown"),
                 printing(fsdp::printPipelineOptions));
static llvm::cl::opt<bool>
    printClusters("fsdp-clusters",
                  llvm::cl::desc("print the clusters' presets as Markdown"),
                  printing(fsdp::printClusters));

static llvm::cl::opt<bool> checksOptions(
    "fsdp-check-options",
    llvm::cl::desc("look at the options of passes, and read no IR"));

/// Whether there are the passes that the command line names, with the options
/// that it gives them; says so where not.
static mlir::LogicalResult checkOptions(const mlir::DialectRegistry &registry) {
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::PassManager passes(&context);
  return mlir::MlirOptMainConfig::createFromCLOptions().setupPassPipeline(
      passes);
}

static constexpr llvm::StringLiteral help =
    R"(fsdp-opt: shards, schedules and lowers a training step.

  fsdp-opt step.mlir --fsdp-pipeline="mesh=2" -o step.fsdp.mlir

  FILE                          IR, as fsdp-translate gives it; -: stdin
  -o FILE                       the result; default: stdout

Compile (options: docs/options.md)
  --fsdp-pipeline="NAME=VALUE"  all of it: --fsdp-shard, --fsdp-overlap, --fsdp-lower
  --fsdp-options                print the pipelines' options as Markdown
  --fsdp-clusters               print what cluster=NAME may be, as Markdown

Look
  --fsdp-explain=peak           what fills the memory at its peak
  --fsdp-explain=exposed        what communication is exposed, why, and what would help
  --fsdp-explain=UNIT           a unit's shards and collectives; root: the whole model's own
  --fsdp-report                 collectives, bytes and predicted time (format=json for programs)
  --remarks-filter='fsdp.*' --remark-format=emitRemark
                                every decision, with its figures; 'changes' in place of
                                'fsdp.*': what each pass changed

Debug
  --mlir-print-ir-after-all     the IR behind each pass
  --fsdp-NAME                   one pass alone (docs/passes.md)

  --help-all                    every pass and flag, MLIR's and LLVM's among them
  --version
)";

/// MLIR fails without a word where it cannot write remarks.
static mlir::LogicalResult checkRemarksFile() {
  std::string file =
      mlir::MlirOptMainConfig::createFromCLOptions().getRemarksOutputFile();
  llvm::StringRef folder = llvm::sys::path::parent_path(file);
  std::string why;
  if (!folder.empty() && !llvm::sys::fs::is_directory(folder))
    why = "there is no folder " + folder.str() + " to write it into";
  else if (llvm::sys::fs::is_directory(file))
    why = "it is a folder; name a file";
  if (why.empty())
    return fsdp::checkReader(file);
  fsdp::printError(fsdp::Error(fsdp::E::FileUnwritable,
                               "--remarks-output-file=" + file + ": " + why));
  return mlir::failure();
}

int main(int argc, char **argv) {
  fsdp::identifyFullDisk();
  if (fsdp::printedHelp({argv, size_t(argc)}, help))
    return 0;
  fsdp::honourNoColour();
  fsdp::identifyBadFlags();
  fsdp::printLocationsByDefault();
  mlir::DialectRegistry registry;
  fsdp::registerDialects(registry);
  mlir::registerTransformsPasses();
  fsdp::registerFSDPPasses();
  fsdp::registerPipelines();
  if (failed(fsdp::checkOptionsOfFlags({argv, size_t(argc)})))
    return 1;
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "compiler of training steps\n", registry);
  mlir::LogicalResult result = fsdp::checkPassNames();
  if (succeeded(result))
    result = checkRemarksFile();
  if (succeeded(result))
    result = checksOptions ? checkOptions(registry) : fsdp::checkIr(input);
  if (succeeded(result) && checksOptions)
    return 0;
  if (succeeded(result))
    result = fsdp::checkOutput(output, {input});
  if (succeeded(result))
    result = mlir::MlirOptMain(argc, argv, input, output, registry);
  if (failed(result))
    fsdp::printIdentifierIfNone(fsdp::E::Ir);
  return mlir::asMainReturnCode(result);
}
