// Plans as targets of mlir-translate, and as what is shown of them.

#include "cost/CommandCost.h"
#include "fsdp/Dialect/Aten/Schema.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/Registration.h"
#include "fsdp/Target/PlanExport.h"
#include "plan/FormatText.h"
#include "plan/PlanFile.h"
#include "plan/PlanText.h"
#include "trace/PlanDiff.h"
#include "trace/PlanJson.h"
#include "trace/TraceOfPlan.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"

#include <sstream>

using namespace mlir;
using namespace fsdp;
namespace cl = llvm::cl;

void fsdp::registerPlanExport() {
  TranslateFromMLIRRegistration registration(
      "fsdp-to-plan", "make a plan of a module lowered to commands",
      [](ModuleOp module, raw_ostream &output) -> LogicalResult {
        FailureOr<ExportedPlan> exported = exportPlan(module);
        if (failed(exported) || failed(verifyPlan(*exported)))
          return failure();
        output << plan::serializePlan(exported->plan);
        return success();
      },
      registerDialects);
}

/// Registers a translation of a plan file, which is checked, to text. Errors of
/// plans and clusters are printed.
static void registerPlanReader(
    StringRef name, StringRef description,
    std::function<void(const plan::LoadedPlan &, std::ostream &)> print) {
  TranslateRegistration registration(
      name, description,
      [print](const std::shared_ptr<llvm::SourceMgr> &sources,
              raw_ostream &output, MLIRContext *) -> LogicalResult {
        const llvm::MemoryBuffer *file =
            sources->getMemoryBuffer(sources->getMainFileID());
        try {
          std::ostringstream text;
          print(plan::parsePlan(file->getBuffer().str(),
                                file->getBufferIdentifier().str(),
                                aten::findOperatorSchema),
                text);
          output << visible(text.str());
          return success();
        } catch (const std::runtime_error &error) {
          printError(error);
          return failure();
        }
      });
}

void fsdp::registerPlanToText() {
  registerPlanReader("plan-to-text", "check a plan and print it",
                     plan::printPlan);
}

namespace {

/// What predictions are made for.
struct TraceOptions {
  cl::opt<std::string> cluster{
      "trace-cluster",
      cl::desc(
          "of --plan-to-trace, --plan-to-json and --plan-diff: the cluster to "
          "predict for, a preset or a TOML file (default: the one that the "
          "plan was compiled for)"),
      cl::value_desc("name"), cl::init("")};
  cl::opt<bool> allRanks{
      "trace-all-ranks",
      cl::desc("of --plan-to-trace: a process for each rank, not one for all")};

  cost::Cluster clusterFor(const plan::PlanT &plan) const {
    return trace::clusterFor(plan, cluster);
  }
};

} // namespace

static TraceOptions &getTraceOptions() {
  static TraceOptions options;
  return options;
}

void fsdp::registerPlanToTrace() {
  TraceOptions &options = getTraceOptions();
  registerPlanReader(
      "plan-to-trace",
      "predict a step of a plan, as a trace for ui.perfetto.dev",
      [&options](const plan::LoadedPlan &loaded, std::ostream &out) {
        out << trace::predictedTrace(loaded, options.clusterFor(*loaded.plan),
                                     options.allRanks);
      });
}

void fsdp::registerPlanToJson() {
  TraceOptions &options = getTraceOptions();
  registerPlanReader(
      "plan-to-json", "check a plan and print its facts and predictions",
      [&options](const plan::LoadedPlan &loaded, std::ostream &out) {
        out << trace::planJson(loaded, options.clusterFor(*loaded.plan));
      });
}

void fsdp::registerPlanDiff() {
  TraceOptions &options = getTraceOptions();
  static cl::opt<std::string> after(StringRef(kPlanDiffAfter),
                                    cl::desc("the second plan of --plan-diff"),
                                    cl::Hidden);
  registerPlanReader(
      "plan-diff", "say what a second plan changes: --plan-diff A B",
      [&options](const plan::LoadedPlan &before, std::ostream &out) {
        if (after.empty())
          throw plan::PlanError(E::FlagsDisagree,
                                "--plan-diff compares two plans; give both, as "
                                "in --plan-diff A B");
        plan::LoadedPlan other =
            plan::readPlan(after, aten::findOperatorSchema);
        trace::printDiff({before, options.clusterFor(*before.plan)},
                         {other, options.clusterFor(*other.plan)}, out);
      });
}
