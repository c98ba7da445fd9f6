// fsdp-explain.

#include "trace/Explain.h"
#include "cost/CommandCost.h"
#include "fsdp/Target/PlanExport.h"
#include "fsdp/Transforms/Passes.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/ToolOutputFile.h"

#include <sstream>

namespace fsdp {
#define GEN_PASS_DEF_EXPLAIN
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class Explain : public fsdp::impl::ExplainBase<Explain> {
public:
  using ExplainBase::ExplainBase;

  /// The first word may stand alone: `--fsdp-explain=peak`.
  LogicalResult initializeOptions(
      StringRef options,
      function_ref<LogicalResult(const Twine &)> errorHandler) override {
    StringRef first = options.split(' ').first;
    if (first.empty() || first.contains('='))
      return ExplainBase::initializeOptions(options, errorHandler);
    return ExplainBase::initializeOptions(("what=" + options).str(),
                                          errorHandler);
  }

  void runOnModule() override {
    markAllAnalysesPreserved();
    FailureOr<ExportedPlan> exported = exportPlan(getOperation());
    if (failed(exported) || failed(verifyPlan(*exported)))
      return signalPassFailure();
    const plan::PlanT &plan = exported->plan;
    std::ostringstream text;
    try {
      trace::explain(plan,
                     cluster.empty() ? cost::clusterOf(plan)
                                     : cost::findCluster(cluster),
                     what, text);
    } catch (const std::runtime_error &error) {
      ofKind(kindOf(error), getOperation().emitError()) << error.what();
      return signalPassFailure();
    }
    std::string why;
    std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(output, &why);
    if (!file) {
      ofKind(E::FileUnwritable, getOperation().emitError())
          << "what is explained cannot be written: " << why;
      return signalPassFailure();
    }
    file->os() << text.str();
    file->keep();
  }
};

} // namespace
