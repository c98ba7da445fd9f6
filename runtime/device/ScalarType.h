#ifndef FSDP_RUNTIME_DEVICE_SCALARTYPE_H
#define FSDP_RUNTIME_DEVICE_SCALARTYPE_H

#include "plan/PlanTypes.h"

#include <c10/core/ScalarType.h>

namespace fsdp {

/// PyTorch's name for a plan's dtype.
inline at::ScalarType toScalarType(plan::DType dtype) {
  constexpr at::ScalarType types[] = {
      at::kBool,  at::kByte,   at::kChar,         at::kShort,
      at::kInt,   at::kLong,   at::kHalf,         at::kBFloat16,
      at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble,
  };
  return types[static_cast<size_t>(dtype)];
}

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_SCALARTYPE_H
