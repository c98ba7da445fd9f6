// fsdp-record-pipeline.

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Transforms/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_RECORDPIPELINE
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;

namespace {

class RecordPipeline : public fsdp::impl::RecordPipelineBase<RecordPipeline> {
public:
  using RecordPipelineBase::RecordPipelineBase;

  void runOnModule() override {
    ModuleOp module = getOperation();
    std::string all = text;
    if (auto before = kPipelineAttr.get(module))
      all = before.getValue().str() + "," + text;
    kPipelineAttr.set(module, all);
  }
};

} // namespace
