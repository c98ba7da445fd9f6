// Some kernels do not check that the shapes of their operands fit each other,
// and access memory outside of them when they do not; test/numerics/kernels
// found each of these. A contract states the shapes that such an operator
// requires: those that its forward operator produces, or those that autograd
// passes to it.
#ifndef FSDP_PLAN_OPERANDS_OPERANDS_H
#define FSDP_PLAN_OPERANDS_OPERANDS_H

#include "plan/OperatorSchema.h"
#include "plan/PlanTypes.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace fsdp::plan {

using Shape = std::vector<int64_t>;

inline int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  int64_t count = 1; // values' shapes have been checked
  for (; begin != end; ++begin)
    count *= *begin;
  return count;
}
inline int64_t numel(const Shape &shape) {
  return product(shape.begin(), shape.end());
}
inline bool isPositive(const Shape &shape) {
  return std::all_of(shape.begin(), shape.end(),
                     [](int64_t size) { return size > 0; });
}
/// All but the last `dims` dimensions.
inline Shape leading(const Shape &shape, size_t dims) {
  return Shape(shape.begin(), shape.end() - std::min(dims, shape.size()));
}
inline Shape last(const Shape &shape, size_t dims) {
  return Shape(shape.end() - std::min(dims, shape.size()), shape.end());
}

/// A call's operands and constants by their schema's names.
class Operands {
public:
  Operands(const ProgramT &program, const AtenT &call,
           const OperatorSchema &schema)
      : program(program), call(call), schema(schema) {}

  bool has(std::string_view name) const { return tensor(name) != nullptr; }
  /// Of an operand that is absent: none.
  Shape shape(std::string_view name) const {
    const ValueT *value = tensor(name);
    return value ? value->shape : Shape();
  }
  /// Each tensor of a list.
  std::vector<Shape> shapes(std::string_view name) const {
    std::vector<Shape> all;
    if (const ArgumentT *given = find(name))
      for (int value : given->values)
        all.push_back(program.values[value]->shape);
    return all;
  }
  Shape integers(std::string_view name) const {
    const ArgumentT *given = find(name);
    return given ? given->ints : Shape();
  }
  std::optional<int64_t> integer(std::string_view name) const {
    const ArgumentT *given = find(name);
    return given && given->kind == ArgumentKind::Int ? std::optional(given->i)
                                                     : std::nullopt;
  }
  bool isFalse(std::string_view name) const {
    const ArgumentT *given = find(name);
    return given && given->kind == ArgumentKind::Bool && given->i == 0;
  }
  /// Whether an optional number is left out, or a constant.
  bool isConstant(std::string_view name, std::optional<double> &number) const {
    const ArgumentT *given = find(name);
    if (!given || given->kind == ArgumentKind::None ||
        given->kind == ArgumentKind::Default)
      return true;
    if (given->kind == ArgumentKind::Double)
      number = given->d;
    else if (given->kind == ArgumentKind::Int)
      number = double(given->i);
    return number.has_value();
  }
  /// Whether all of these have one shape, but for those that are absent.
  bool haveSameShape(std::initializer_list<std::string_view> names) const {
    const ValueT *first = nullptr;
    for (std::string_view name : names)
      if (const ValueT *value = tensor(name)) {
        first = first ? first : value;
        if (value->shape != first->shape)
          return false;
      }
    return true;
  }
  /// Whether each of these has so many elements, or is absent.
  bool haveElements(int64_t count,
                    std::initializer_list<std::string_view> names) const {
    return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
      return !has(name) || numel(shape(name)) == count;
    });
  }

private:
  const ArgumentT *find(std::string_view name) const {
    for (size_t i = 0; i < call.arguments.size(); ++i)
      if (schema.arguments[i].name == name)
        return call.arguments[i].get();
    return nullptr;
  }
  const ValueT *tensor(std::string_view name) const {
    const ArgumentT *given = find(name);
    return given && given->kind == ArgumentKind::Value
               ? program.values[given->value].get()
               : nullptr;
  }

  const ProgramT &program;
  const AtenT &call;
  const OperatorSchema &schema;
};

/// Of one operator, all its overloads.
struct Contract {
  std::string_view name;
  bool (*holds)(const Operands &);
};

/// A table of them.
class Contracts {
public:
  template <size_t count>
  constexpr Contracts(const Contract (&rows)[count])
      : first(rows), behind(rows + count) {}
  const Contract *begin() const { return first; }
  const Contract *end() const { return behind; }

private:
  const Contract *first, *behind;
};

extern const Contracts imageContracts, indexContracts, layerContracts,
    matrixContracts;

} // namespace fsdp::plan

#endif // FSDP_PLAN_OPERANDS_OPERANDS_H
