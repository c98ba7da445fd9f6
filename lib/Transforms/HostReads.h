// What a program for GPUs reads on the host.

#ifndef FSDP_LIB_TRANSFORMS_HOSTREADS_H
#define FSDP_LIB_TRANSFORMS_HOSTREADS_H

#include "mlir/IR/Operation.h"

#include <string>

namespace fsdp {

/// "aten::nonzero in blocks.0 reads how many elements its result has": of a
/// call that runs on a GPU and waits for it. Empty for all else.
std::string describeHostRead(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_HOSTREADS_H
