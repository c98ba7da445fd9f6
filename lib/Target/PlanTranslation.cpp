// Plans as targets of mlir-translate.

#include "fsdp/Dialect/Aten/Schema.h"
#include "fsdp/Dialect/Registration.h"
#include "fsdp/Target/PlanExport.h"
#include "plan/PlanFile.h"
#include "plan/PlanText.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/SourceMgr.h"

#include <sstream>

using namespace mlir;
using namespace fsdp;

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

void fsdp::registerPlanToText() {
  TranslateRegistration registration(
      "plan-to-text", "check a plan and print it",
      [](const std::shared_ptr<llvm::SourceMgr> &sources, raw_ostream &output,
         MLIRContext *) -> LogicalResult {
        const llvm::MemoryBuffer *file =
            sources->getMemoryBuffer(sources->getMainFileID());
        try {
          std::ostringstream text;
          plan::printPlan(plan::parsePlan(file->getBuffer().str(),
                                          file->getBufferIdentifier().str(),
                                          aten::findOperatorSchema),
                          text);
          output << text.str();
          return success();
        } catch (const plan::PlanError &error) {
          llvm::errs() << "error: " << error.what() << "\n";
          return failure();
        }
      });
}
