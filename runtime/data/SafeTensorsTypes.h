#ifndef FSDP_RUNTIME_DATA_SAFETENSORSTYPES_H
#define FSDP_RUNTIME_DATA_SAFETENSORSTYPES_H

#include "plan/PlanTypes.h"

#include <optional>
#include <string_view>

namespace fsdp {

/// Null where the format has no such type.
inline const char *safetensorsName(plan::DType dtype) {
  static constexpr const char *names[] = {"BOOL", "U8",  "I8",  "I16",
                                          "I32",  "I64", "F16", "BF16",
                                          "F32",  "F64", "C64", nullptr};
  return names[static_cast<size_t>(dtype)];
}

inline std::optional<plan::DType> safetensorsType(std::string_view name) {
  for (plan::DType dtype : plan::EnumValuesDType())
    if (const char *own = safetensorsName(dtype); own && name == own)
      return dtype;
  return std::nullopt;
}

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAFETENSORSTYPES_H
