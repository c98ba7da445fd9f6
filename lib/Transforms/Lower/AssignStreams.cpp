// Say on which stream each op runs.

#include "fsdp/Analysis/OpCost.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"
#include "plan/PlanTypes.h"

using namespace mlir;

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNSTREAMS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace fsdp;

/// Loads and step scalars are no commands.
static bool isCommand(Operation *op) {
  return isStart(op) ||
         isa<aten::CallOp, PackOp, UnpackOp, KeepOp, WaitOp, UpdateOp, StoreOp>(
             op);
}

namespace {
struct AssignStreamsPass : fsdp::impl::AssignStreamsBase<AssignStreamsPass> {
  using AssignStreamsBase::AssignStreamsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder builder(&getContext());
    for (func::FuncOp program : getPrograms(module))
      for (Operation &op : program.getOps())
        if (isCommand(&op))
          op.setAttr(kStreamAttrName, builder.getI64IntegerAttr(
                                          streams == StreamCount::One
                                              ? unsigned(plan::computeStream)
                                              : OpCost::getStream(&op)));
  }
};
} // namespace
