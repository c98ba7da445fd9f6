// Results that are not of the same type on all devices.

#ifndef FSDP_LIB_TRANSFORMS_DEVICE_DEVICERESULTS_H
#define FSDP_LIB_TRANSFORMS_DEVICE_DEVICERESULTS_H

#include "fsdp/Dialect/Aten/Aten.h"

namespace fsdp {

/// Gives the results of a call, and what looks into them, the types that a GPU
/// gives; they were captured as a CPU gives them. All are read by the call's
/// own backward alone, which takes either.
void retypeForGpu(aten::CallOp call);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_DEVICE_DEVICERESULTS_H
