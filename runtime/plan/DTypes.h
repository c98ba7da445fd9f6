// The dtypes of a plan, by the names and numbers that files and libraries give
// them. DTypes.def is the table.
#ifndef FSDP_PLAN_DTYPES_H
#define FSDP_PLAN_DTYPES_H

#include "plan/plan_generated.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace fsdp::plan {

/// What can be done with the numbers of a dtype.
enum class DTypeClass {
  Bool,
  Integer,
  Float,
  Complex,
  StoredFloat // kept and moved; converted to a Float to be computed with
};

struct DTypeInfo {
  DType dtype;
  const char *name; // PyTorch's: "float32"
  uint64_t bytes;   // of one element
  DTypeClass kind;
  const char *safetensors; // null where the format has no such type
  int scalarType;          // c10::ScalarType
};

/// The table's row; null for a number that is no dtype.
const DTypeInfo *findDType(DType dtype);
/// By PyTorch's name; null for a name that is no dtype's.
const DTypeInfo *findDType(std::string_view name);
/// By what a safetensors header calls it.
std::optional<DType> dtypeOfSafetensors(std::string_view name);
/// By its number in c10::ScalarType.
std::optional<DType> dtypeOfScalarType(int64_t number);

/// Bytes of one element; 0 for a number that is no dtype.
uint64_t dtypeBytes(DType dtype);
/// PyTorch's name ("float32"); "?" for a number that is no dtype.
const char *dtypeName(DType dtype);

/// PyTorch's names of all dtypes, and of those for which isFloating() holds.
std::set<std::string> dtypeNames();
std::set<std::string> floatingNames();

/// Whether the dtype is a real floating-point one that is computed with.
bool isFloating(DType dtype);
/// Whether it has NaN.
bool hasNaN(DType dtype);
/// Whether ranks can take the sum, or the maximum, of such numbers.
constexpr bool isReducible(DTypeClass kind, ReduceOp op) {
  return kind == DTypeClass::Integer || kind == DTypeClass::Float ||
         (kind == DTypeClass::Complex && op == ReduceOp::Sum);
}
bool isReducible(DType dtype, ReduceOp op);

} // namespace fsdp::plan

#endif // FSDP_PLAN_DTYPES_H
