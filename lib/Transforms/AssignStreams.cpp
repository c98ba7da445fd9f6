// Say on which stream each op runs.

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
  return isa<aten::CallOp, PackOp, UnpackOp, AllGatherStartOp,
             ReduceScatterStartOp, AllReduceStartOp, WaitOp, UpdateOp, StoreOp>(
      op);
}

/// Compute, copies and waits follow each other on the first stream; gathers and
/// reductions have one each beside it.
static int64_t getStream(Operation *op, bool sideStreams) {
  if (sideStreams && isa<AllGatherStartOp>(op))
    return plan::gatherStream;
  if (sideStreams && isa<ReduceScatterStartOp, AllReduceStartOp>(op))
    return plan::reduceStream;
  return plan::computeStream;
}

namespace {
struct AssignStreamsPass : fsdp::impl::AssignStreamsBase<AssignStreamsPass> {
  using AssignStreamsBase::AssignStreamsBase;

  void runOnOperation() override {
    if (streams != 1 && streams != 3) {
      getOperation().emitError() << "streams=" << streams.getValue()
                                 << " does not exist; there are 1 and 3";
      return signalPassFailure();
    }
    Builder builder(&getContext());
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Operation &op : program.getOps())
        if (isCommand(&op))
          op.setAttr(kStreamAttrName,
                     builder.getI64IntegerAttr(getStream(&op, streams == 3)));
  }
};
} // namespace
