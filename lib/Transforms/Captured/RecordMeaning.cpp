// fsdp-record-meaning.

#include "fsdp/Target/PlanExport.h"
#include "fsdp/Transforms/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_RECORDMEANING
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {
struct RecordMeaning : fsdp::impl::RecordMeaningBase<RecordMeaning> {
  void runOnModule() override {
    if (failed(recordMeanings(getOperation())))
      signalPassFailure();
  }
};
} // namespace
