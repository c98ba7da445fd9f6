// Say on which stream each op runs.

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"
#include "plan/PlanTypes.h"

using namespace mlir;

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNSTREAMS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace fsdp;

namespace {
struct AssignStreamsPass : fsdp::impl::AssignStreamsBase<AssignStreamsPass> {
  using AssignStreamsBase::AssignStreamsBase;

  void runOnModule() override {
    ModuleOp module = getOperation();
    for (func::FuncOp program : getPrograms(module))
      for (auto command : program.getOps<TimelineOpInterface>())
        kStreamAttr.set(command, streams == StreamCount::One
                                     ? uint64_t(plan::computeStream)
                                     : command.chooseStream());
  }
};
} // namespace
