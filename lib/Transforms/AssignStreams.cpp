// Say on which stream each op runs.

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

using namespace mlir;

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNSTREAMS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace fsdp;

/// Waits are for collectives, which have a stream; loads and step scalars are
/// no commands.
static bool isCommand(Operation *op) {
  return isa<aten::CallOp, PackOp, UnpackOp, AllGatherStartOp,
             ReduceScatterStartOp, WaitOp, UpdateOp, StoreOp>(op);
}

namespace {
struct AssignStreamsPass : fsdp::impl::AssignStreamsBase<AssignStreamsPass> {
  void runOnOperation() override {
    auto stream = IntegerAttr::get(IntegerType::get(&getContext(), 64), 0);
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Operation &op : program.getOps())
        if (isCommand(&op))
          op.setAttr(kStreamAttrName, stream);
  }
};
} // namespace
