// Verifiers of the sharded phase.

#include "fsdp/Dialect/FSDP/FSDP.h"

using namespace mlir;
using namespace fsdp;

LogicalResult UnshardOp::verify() {
  if (getRegion() != "forward" && getRegion() != "backward")
    return emitOpError() << "has the region \"" << getRegion()
                         << "\"; it is \"forward\" or \"backward\"";
  return success();
}
