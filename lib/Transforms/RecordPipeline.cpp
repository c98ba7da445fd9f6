// fsdp-record-pipeline.

#include "fsdp/Transforms/Passes.h"

#include "mlir/IR/Builders.h"

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
    if (auto before = module->getAttrOfType<StringAttr>("fsdp.pipeline"))
      all = before.getValue().str() + "," + text;
    module->setAttr("fsdp.pipeline", Builder(module).getStringAttr(all));
  }
};

} // namespace
