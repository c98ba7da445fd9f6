#include "plan/DTypes.h"

#include <algorithm>
#include <iterator>

using namespace fsdp::plan;

namespace {

constexpr DTypeInfo rows[] = {
#define FSDP_DTYPE(ENUM, NAME, BYTES, CLASS, SAFETENSORS, C10, MLIR)           \
  {DType::ENUM, NAME, BYTES, DTypeClass::CLASS, SAFETENSORS, C10},
#include "plan/DTypes.def"
#undef FSDP_DTYPE
};

constexpr bool followsTheSchema() {
  for (size_t i = 0; i < std::size(rows); ++i)
    if (rows[i].dtype != static_cast<DType>(i))
      return false;
  return std::size(rows) == static_cast<size_t>(DType::MAX) + 1;
}
static_assert(followsTheSchema(),
              "DTypes.def has a row for each dtype of plan.fbs, in its order");

template <typename Matches> const DTypeInfo *findRow(Matches matches) {
  auto row = std::find_if(std::begin(rows), std::end(rows), matches);
  return row == std::end(rows) ? nullptr : row;
}

std::optional<DType> dtypeOf(const DTypeInfo *row) {
  return row ? std::optional(row->dtype) : std::nullopt;
}

} // namespace

const DTypeInfo *fsdp::plan::findDType(DType dtype) {
  return dtype <= DType::MAX ? &rows[static_cast<size_t>(dtype)] : nullptr;
}

const DTypeInfo *fsdp::plan::findDType(std::string_view name) {
  return findRow([&](const DTypeInfo &row) { return name == row.name; });
}

std::optional<DType> fsdp::plan::dtypeOfSafetensors(std::string_view name) {
  return dtypeOf(findRow([&](const DTypeInfo &row) {
    return row.safetensors && name == row.safetensors;
  }));
}

std::optional<DType> fsdp::plan::dtypeOfScalarType(int64_t number) {
  return dtypeOf(
      findRow([&](const DTypeInfo &row) { return number == row.scalarType; }));
}

uint64_t fsdp::plan::dtypeBytes(DType dtype) {
  const DTypeInfo *row = findDType(dtype);
  return row ? row->bytes : 0;
}

const char *fsdp::plan::dtypeName(DType dtype) {
  const DTypeInfo *row = findDType(dtype);
  return row ? row->name : "?";
}

std::set<std::string> fsdp::plan::dtypeNames() {
  std::set<std::string> names;
  for (const DTypeInfo &row : rows)
    names.insert(row.name);
  return names;
}

std::set<std::string> fsdp::plan::floatingNames() {
  std::set<std::string> names;
  for (const DTypeInfo &row : rows)
    if (row.kind == DTypeClass::Float)
      names.insert(row.name);
  return names;
}

bool fsdp::plan::isFloating(DType dtype) {
  const DTypeInfo *row = findDType(dtype);
  return row && row->kind == DTypeClass::Float;
}

bool fsdp::plan::hasNaN(DType dtype) {
  const DTypeInfo *row = findDType(dtype);
  return row && row->kind != DTypeClass::Bool &&
         row->kind != DTypeClass::Integer;
}

bool fsdp::plan::isReducible(DType dtype, ReduceOp op) {
  const DTypeInfo *row = findDType(dtype);
  return row && isReducible(row->kind, op);
}
