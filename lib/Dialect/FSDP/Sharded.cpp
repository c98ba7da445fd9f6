// Verifiers of the sharded phase.

#include "fsdp/Dialect/FSDP/FSDP.h"

using namespace mlir;
using namespace fsdp;

template <typename Op> static LogicalResult verifyRegion(Op op) {
  if (op.getRegion() != "forward" && op.getRegion() != "backward")
    return op.emitOpError() << "has the region \"" << op.getRegion()
                            << "\"; it is \"forward\" or \"backward\"";
  return success();
}

LogicalResult UnshardOp::verify() { return verifyRegion(*this); }
LogicalResult FetchOp::verify() { return verifyRegion(*this); }
