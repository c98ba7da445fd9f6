#include "Help.h"
#include "PrintLocations.h"
#include "fsdp/Dialect/Diagnostics.h"
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

// Likewise of docs/clusters.md.
static llvm::cl::opt<bool>
    printClusters("fsdp-clusters",
                  llvm::cl::desc("print the clusters' presets as Markdown"),
                  llvm::cl::callback([](const bool &) {
                    fsdp::printClusters(llvm::outs());
                    llvm::outs().flush();
                    std::exit(0);
                  }));

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
                                every decision, with its figures

Debug
  --mlir-print-ir-after-all     the IR behind each pass
  --fsdp-NAME                   one pass alone (docs/passes.md)

  --help-all                    every pass and flag, MLIR's and LLVM's among them
  --version
)";

int main(int argc, char **argv) {
  if (fsdp::printedHelp({argv, size_t(argc)}, help))
    return 0;
  fsdp::identifyBadFlags();
  fsdp::printLocationsByDefault();
  mlir::DialectRegistry registry;
  fsdp::registerDialects(registry);
  mlir::registerTransformsPasses();
  fsdp::registerFSDPPasses();
  fsdp::registerPipelines();
  mlir::LogicalResult result =
      mlir::MlirOptMain(argc, argv, "compiler of training steps\n", registry);
  if (failed(result))
    fsdp::printIdentifierIfNone(fsdp::E::Ir);
  return mlir::asMainReturnCode(result);
}
