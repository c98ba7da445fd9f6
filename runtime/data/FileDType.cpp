#include "data/FileDType.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <cstring>

namespace fsdp {

std::optional<FileDType> findFileDType(std::string_view name) {
  if (name == "uint16")
    return FileDType{"uint16", 2, c10::ScalarType::UInt16};
  if (name == "uint32")
    return FileDType{"uint32", 4, c10::ScalarType::UInt32};
  if (const plan::DTypeInfo *known = plan::findDType(name))
    return FileDType{known->name, known->bytes,
                     static_cast<c10::ScalarType>(known->scalarType)};
  return std::nullopt;
}

static c10::ScalarType scalarTypeOf(plan::DType dtype) {
  return static_cast<c10::ScalarType>(plan::findDType(dtype)->scalarType);
}

bool converts(const FileDType &from, plan::DType to) {
  c10::ScalarType target = scalarTypeOf(to);
  if (from.scalarType == target)
    return true;
  bool fromInteger =
      c10::isIntegralType(from.scalarType, /*includeBool=*/false);
  bool fromBool = from.scalarType == c10::ScalarType::Bool;
  if (plan::isFloating(to))
    return fromInteger || fromBool || c10::isFloatingType(from.scalarType);
  if (!c10::isIntegralType(target, /*includeBool=*/false))
    return false;
  if (fromBool)
    return true;
  bool fromUnsigned = from.scalarType == c10::ScalarType::Byte ||
                      from.scalarType == c10::ScalarType::UInt16 ||
                      from.scalarType == c10::ScalarType::UInt32;
  // A plan's only unsigned numbers are those of one byte.
  return fromInteger && from.bytes < plan::dtypeBytes(to) &&
         (fromUnsigned || target != c10::ScalarType::Byte);
}

void convert(const void *from, const FileDType &type, int64_t count,
             plan::DType dtype, void *to) {
  c10::ScalarType target = scalarTypeOf(dtype);
  if (type.scalarType == target) {
    std::memcpy(to, from, count * type.bytes);
    return;
  }
  at::from_blob(to, {count}, at::TensorOptions(target))
      .copy_(at::from_blob(const_cast<void *>(from), {count},
                           at::TensorOptions(type.scalarType)));
}

} // namespace fsdp
