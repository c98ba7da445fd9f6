#include "executor/ConstantArgument.h"

#include "executor/AtenOp.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <cmath>

namespace fsdp {

namespace {

using Kind = plan::ArgumentKind;
using Result = std::optional<c10::IValue>;

Result scalar(const plan::ArgumentT &given, c10::TypeKind type) {
  bool number = type == c10::TypeKind::NumberType;
  bool integer =
      type == c10::TypeKind::IntType || type == c10::TypeKind::SymIntType;
  bool floating =
      type == c10::TypeKind::FloatType || type == c10::TypeKind::SymFloatType;
  bool boolean =
      type == c10::TypeKind::BoolType || type == c10::TypeKind::SymBoolType;
  switch (given.kind) {
  case Kind::Int:
    if (number || integer)
      return c10::IValue(given.i);
    if (floating)
      return c10::IValue(static_cast<double>(given.i));
    if (boolean && (given.i == 0 || given.i == 1))
      return c10::IValue(given.i == 1);
    return {};
  case Kind::Double:
    if (number || floating)
      return c10::IValue(given.d.value_or(0));
    return {};
  case Kind::Bool:
    if (number || boolean)
      return c10::IValue(given.i != 0);
    return {};
  case Kind::Complex:
    if (!number || given.doubles.size() != 2)
      return {};
    return c10::IValue(
        c10::complex<double>(given.doubles[0], given.doubles[1]));
  case Kind::DType:
    if (!integer)
      return {};
    return c10::IValue(
        static_cast<int64_t>(toScalarType(static_cast<plan::DType>(given.i))));
  case Kind::String:
    if (type != c10::TypeKind::StringType)
      return {};
    return c10::IValue(given.s);
  default:
    return {};
  }
}

Result list(const plan::ArgumentT &given, const c10::TypePtr &element,
            std::optional<int32_t> length) {
  // An empty list has no kind of its own.
  bool empty = (given.kind == Kind::IntList && given.ints.empty()) ||
               (given.kind == Kind::DoubleList && given.doubles.empty()) ||
               (given.kind == Kind::BoolList && given.ints.empty());
  switch (element->kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
    if (given.kind == Kind::IntList || empty)
      return c10::IValue(
          c10::List<int64_t>(c10::ArrayRef<int64_t>(given.ints)));
    if (given.kind == Kind::Int && length)
      return c10::IValue(c10::List<int64_t>(
          c10::ArrayRef<int64_t>(std::vector<int64_t>(*length, given.i))));
    return {};
  case c10::TypeKind::FloatType: {
    c10::List<double> values;
    if (given.kind == Kind::IntList)
      for (int64_t i : given.ints)
        values.push_back(static_cast<double>(i));
    else if (given.kind == Kind::DoubleList)
      for (double d : given.doubles)
        values.push_back(d);
    else if (!empty)
      return {};
    return c10::IValue(std::move(values));
  }
  case c10::TypeKind::BoolType: {
    if (given.kind != Kind::BoolList && !empty)
      return {};
    c10::List<bool> values;
    for (int64_t i : given.ints)
      values.push_back(i != 0);
    return c10::IValue(std::move(values));
  }
  case c10::TypeKind::NumberType: {
    c10::impl::GenericList values(c10::NumberType::get());
    if (given.kind == Kind::IntList)
      for (int64_t i : given.ints)
        values.push_back(c10::IValue(i));
    else if (given.kind == Kind::DoubleList)
      for (double d : given.doubles)
        values.push_back(c10::IValue(d));
    else if (!empty)
      return {};
    return c10::IValue(std::move(values));
  }
  default:
    return {};
  }
}

} // namespace

std::optional<c10::IValue> constantArgument(const plan::ArgumentT &given,
                                            const c10::Argument &argument) {
  c10::TypePtr type = argument.type();
  bool optional = type->kind() == c10::TypeKind::OptionalType;
  if (optional)
    type = type->castRaw<c10::OptionalType>()->getElementType();
  if (given.kind == Kind::Default && argument.default_value())
    return *argument.default_value();
  // Schemas of backward operators call what may be undefined a tensor, too.
  if (given.kind == Kind::None && type->kind() == c10::TypeKind::TensorType)
    return optional ? c10::IValue() : c10::IValue(at::Tensor());
  if (given.kind == Kind::Default || given.kind == Kind::None)
    return optional ? Result(c10::IValue()) : std::nullopt;
  if (auto listType = type->cast<c10::ListType>())
    return list(given, listType->getElementType(), argument.N());
  return scalar(given, type->kind());
}

} // namespace fsdp
