#ifndef FSDP_RUNTIME_DEVICE_SCALARTYPE_H
#define FSDP_RUNTIME_DEVICE_SCALARTYPE_H

#include "plan/PlanTypes.h"

#include <c10/core/ScalarType.h>

namespace fsdp {

/// What PyTorch calls a plan's dtype.
inline at::ScalarType toScalarType(plan::DType dtype) {
  return static_cast<at::ScalarType>(plan::findDType(dtype)->scalarType);
}

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_SCALARTYPE_H
