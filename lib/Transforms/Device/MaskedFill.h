// masked_fill with a value that a GPU holds.

#ifndef FSDP_LIB_TRANSFORMS_DEVICE_MASKEDFILL_H
#define FSDP_LIB_TRANSFORMS_DEVICE_MASKEDFILL_H

#include "fsdp/Dialect/Aten/Aten.h"

namespace fsdp {

/// Puts torch.where in place of "masked_fill.Tensor", whose CUDA kernel has the
/// host wait for the value; the elements are the same. Leaves every other call,
/// and one whose value is of another type than what it fills.
void fillWithoutWaiting(aten::CallOp call);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_DEVICE_MASKEDFILL_H
