#ifndef FSDP_RUNTIME_DATA_FILEDTYPE_H
#define FSDP_RUNTIME_DATA_FILEDTYPE_H

#include "plan/DTypes.h"

#include <c10/core/ScalarType.h>
#include <optional>
#include <string_view>

namespace fsdp {

/// What the numbers of a file may be: a plan's dtypes, and those unsigned ones
/// in which tokens are stored.
struct FileDType {
  const char *name; // PyTorch's: "uint16"
  uint64_t bytes;
  c10::ScalarType scalarType;
};

std::optional<FileDType> findFileDType(std::string_view name);

/// Whether a program can read them as `to`: every number is kept, or rounded
/// as a Float is.
bool converts(const FileDType &from, plan::DType to);

/// Converts `count` numbers, as Tensor.to(dtype) does.
void convert(const void *from, const FileDType &type, int64_t count,
             plan::DType dtype, void *to);

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_FILEDTYPE_H
