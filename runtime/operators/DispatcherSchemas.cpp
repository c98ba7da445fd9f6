#include "operators/DispatcherSchemas.h"

#include "operators/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>

namespace fsdp {

using plan::SchemaKind;

static SchemaKind kindOf(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return SchemaKind::Tensor;
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
    return SchemaKind::Int;
  case c10::TypeKind::FloatType:
  case c10::TypeKind::SymFloatType:
    return SchemaKind::Float;
  case c10::TypeKind::BoolType:
  case c10::TypeKind::SymBoolType:
    return SchemaKind::Bool;
  case c10::TypeKind::StringType:
    return SchemaKind::String;
  case c10::TypeKind::NumberType:
    return SchemaKind::Scalar;
  case c10::TypeKind::ComplexType:
    return SchemaKind::Complex;
  case c10::TypeKind::ScalarTypeType:
    return SchemaKind::DType;
  case c10::TypeKind::LayoutType:
    return SchemaKind::Layout;
  case c10::TypeKind::MemoryFormatType:
    return SchemaKind::MemoryFormat;
  case c10::TypeKind::DeviceObjType:
    return SchemaKind::Device;
  case c10::TypeKind::GeneratorType:
    return SchemaKind::Generator;
  default:
    return SchemaKind::Other;
  }
}

/// Of an enumeration type() says that it is an int; its real type says which.
static plan::SchemaType typeOf(const c10::Argument &value) {
  const c10::Type *type = value.real_type().get();
  auto unpack = [&](c10::TypeKind kind) {
    if (type->kind() != kind)
      return false;
    type = type->containedType(0).get();
    return true;
  };
  plan::SchemaType out;
  bool optional = unpack(c10::TypeKind::OptionalType);
  out.list = unpack(c10::TypeKind::ListType);
  out.optional = optional;
  out.optionalMembers = out.list && unpack(c10::TypeKind::OptionalType);
  out.kind = kindOf(*type);
  return out;
}

static void addSets(const c10::AliasInfo &alias, plan::SchemaValue &out) {
  out.isWritten |= alias.isWrite();
  for (const c10::Symbol &set : alias.beforeSets())
    out.sets.push_back(set.toUnqualString());
  for (const c10::AliasInfo &member : alias.containedTypes())
    addSets(member, out);
}

static plan::SchemaValue describe(const c10::Argument &value) {
  plan::SchemaValue out;
  out.name = value.name();
  out.type = typeOf(value);
  out.hasDefault = value.default_value().has_value();
  if (const c10::AliasInfo *alias = value.alias_info())
    addSets(*alias, out);
  return out;
}

std::optional<plan::OperatorSchema>
findDispatcherSchema(const std::string &name, const std::string &overload) {
  registerOperators();
  auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle)
    return std::nullopt;
  plan::OperatorSchema out;
  for (const c10::Argument &argument : handle->schema().arguments())
    out.arguments.push_back(describe(argument));
  for (const c10::Argument &result : handle->schema().returns()) {
    out.results.push_back(describe(result));
    out.results.back().name.clear();
  }
  return out;
}

} // namespace fsdp
