#include "executor/AtenOp.h"

#include "Error.h"
#include "executor/ConstantArgument.h"
#include "plan/HostReads.h"
#include "plan/OperationText.h"
#include "plan/OperatorSchema.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <algorithm>

namespace fsdp {

AtenOp::AtenOp(const plan::AtenT &aten, const std::string &location,
               int64_t ordinal, SiteRandom &random, StepNumbers::List *numbers)
    : resultValues(aten.results), view(aten.view) {
  what = plan::operatorName(aten);
  std::string where = location.empty() ? "" : " in " + location;
  handle = c10::Dispatcher::singleton().findSchema({aten.name, aten.overload});
  if (!handle)
    throw Error(E::PlanOperator,
                "PyTorch has no operator " + what + ", which the plan calls" +
                    where + "; register it or export again with PyTorch's own");
  what += where;
  const auto &arguments = handle->schema().arguments();
  if (aten.arguments.size() > arguments.size())
    throw Error(E::PlanOperator, what + ": the plan gives " +
                                     std::to_string(aten.arguments.size()) +
                                     " arguments, its schema has " +
                                     std::to_string(arguments.size()) +
                                     "; export again");
  static const plan::ArgumentT byDefault;
  for (size_t i = 0; i < arguments.size(); ++i)
    prepared.push_back(
        convert(i < aten.arguments.size() ? *aten.arguments[i] : byDefault, i,
                ordinal, random));
  if (IndexBounds of(handle->schema()); !of.empty())
    bounds = std::move(of);
  if (numbers && !stepScalars.empty())
    holdScalar(aten, *numbers);
}

/// A copy of what `numbers` hold, in place of a tensor made of the scalar.
void AtenOp::holdScalar(const plan::AtenT &aten, StepNumbers::List &numbers) {
  if (!plan::holdsScalar(aten.name) || stepScalars.size() != 1 ||
      !prepared[1].isInt())
    throw Error(E::PlanOperator,
                what + ": takes a number that changes from step to step, which "
                       "on GPUs only aten::scalar_tensor does; compile the "
                       "plan again");
  at::Tensor held =
      numbers.hold(stepScalars[0].scalar, prepared[1].toScalarType());
  c10::IValue none;
  prepared = {held, prepared[1], none, none, none, /*non_blocking=*/false,
              none};
  handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_to_copy", "");
  stepScalars.clear();
}

void AtenOp::misfit(size_t position, const std::string &why) const {
  throw Error(E::PlanOperator,
              what + ": argument " +
                  handle->schema().arguments()[position].name() + " " + why +
                  "; export again with this PyTorch");
}

c10::IValue AtenOp::convert(const plan::ArgumentT &given, size_t position,
                            int64_t ordinal, SiteRandom &random) {
  const c10::Argument &argument = handle->schema().arguments()[position];
  c10::TypePtr type = argument.type();
  if (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();

  switch (type->kind()) {
  case c10::TypeKind::GeneratorType:
    site = &random;
    // High bits keep operators without a site apart from those with one.
    siteNumber = given.kind == plan::ArgumentKind::Generator
                     ? given.i
                     : (int64_t(1) << 40) + ordinal;
    return random.generator();
  case c10::TypeKind::DeviceObjType:
    return random.generator().device();
  default:
    break;
  }

  switch (given.kind) {
  case plan::ArgumentKind::Value:
    if (type->kind() == c10::TypeKind::NumberType ||
        type->kind() == c10::TypeKind::FloatType) {
      tensors.push_back({position, Slot::Number, {given.value}});
      return {};
    }
    if (type->kind() != c10::TypeKind::TensorType)
      misfit(position, "is not a tensor");
    tensors.push_back({position, Slot::Tensor, {given.value}});
    return {};
  case plan::ArgumentKind::ValueList: {
    auto list = type->cast<c10::ListType>();
    if (!list)
      misfit(position, "is not a list of tensors");
    Slot slot = list->getElementType()->kind() == c10::TypeKind::OptionalType
                    ? Slot::OptionalTensorList
                    : Slot::TensorList;
    tensors.push_back({position, slot, given.values});
    return {};
  }
  case plan::ArgumentKind::Scalar:
    if (type->kind() != c10::TypeKind::NumberType &&
        type->kind() != c10::TypeKind::FloatType)
      misfit(position, "cannot change between steps");
    if (given.value < 0)
      misfit(position, "is no scalar of the plan");
    stepScalars.push_back({position, static_cast<size_t>(given.value)});
    return {};
  default:
    if (auto value = constantArgument(given, argument))
      return *value;
    misfit(position, "does not fit its type " + argument.type()->str());
  }
}

bool AtenOp::setOptional(const std::string &argument,
                         const at::Tensor &tensor) {
  std::optional<int> position =
      handle->schema().argumentIndexWithName(argument);
  if (!position)
    return false;
  prepared[*position] = tensor.defined() ? c10::IValue(tensor) : c10::IValue();
  return true;
}

void AtenOp::widenLists(const std::function<std::vector<int>(int)> &valuesOf) {
  for (TensorArgument &given : tensors) {
    if (given.slot != Slot::TensorList)
      continue;
    std::vector<int> wide;
    for (int v : given.values)
      for (int w : valuesOf(v))
        wide.push_back(w);
    given.values = std::move(wide);
  }
}

void AtenOp::bind(const std::vector<at::Tensor> &values) {
  auto tensor = [&](int i) {
    return i < 0 ? at::Tensor() : values.at(static_cast<size_t>(i));
  };
  for (const TensorArgument &given : tensors) {
    c10::IValue &place = prepared[given.argument];
    switch (given.slot) {
    case Slot::Tensor:
    case Slot::Number:
      if (given.values[0] >= 0)
        place = tensor(given.values[0]);
      break;
    case Slot::TensorList: {
      c10::List<at::Tensor> list;
      for (int i : given.values)
        list.push_back(tensor(i));
      place = std::move(list);
      break;
    }
    case Slot::OptionalTensorList: {
      c10::List<std::optional<at::Tensor>> list;
      for (int i : given.values)
        list.push_back(i < 0 ? std::nullopt : std::optional(tensor(i)));
      place = std::move(list);
      break;
    }
    }
  }
}

void AtenOp::unbind() {
  for (const TensorArgument &given : tensors)
    prepared[given.argument] = {};
}

void AtenOp::run(const std::vector<double> &scalars,
                 std::vector<at::Tensor> &results) {
  stack.assign(prepared.begin(), prepared.end());
  for (const ScalarArgument &given : stepScalars)
    stack[given.argument] = scalars.at(given.scalar);
  for (const TensorArgument &given : tensors)
    if (given.slot == Slot::Number)
      stack[given.argument] = stack[given.argument].toTensor().item<double>();
  if (bounds)
    bounds->check(handle->schema(), stack, what);
  if (site)
    site->enterSite(siteNumber);
  try {
    handle->callBoxed(&stack);
  } catch (const c10::Error &error) {
    throw Error(E::Operator, what + ": " + error.what_without_backtrace());
  }
  if (site)
    site->leaveSite();
  size_t before = results.size();
  for (c10::IValue &value : stack) {
    if (value.isTensor())
      results.push_back(std::move(value).toTensor());
    else if (value.isTensorList())
      for (at::Tensor member : value.toTensorVector())
        results.push_back(std::move(member));
    else if (!value.isInt()) // a size, which the plan has as a constant
      throw Error(E::PlanOperator,
                  what + ": returns a " + value.tagKind() +
                      ", not only tensors; a plan cannot hold that");
  }
  stack.clear();
  if (results.size() - before != resultValues.size())
    throw Error(E::PlanOperator,
                what + ": gave " + std::to_string(results.size() - before) +
                    " tensors, the plan says " +
                    std::to_string(resultValues.size()) + "; export again");
}

const char *AtenOp::hostRead() const {
  const c10::OperatorName &name = handle->operator_name();
  KernelCall call{name.name, name.overload_name};
  auto isMask = [](const std::optional<at::Tensor> &member) {
    return member && (member->scalar_type() == at::kBool ||
                      member->scalar_type() == at::kByte);
  };
  auto number = [&](const char *argument) {
    std::optional<int> at = handle->schema().argumentIndexWithName(argument);
    return at && prepared[*at].isScalar() ? prepared[*at].toScalar().toDouble()
                                          : 0;
  };
  call.min = number("min");
  call.max = number("max");
  if (!prepared.empty() && prepared[0].isTensor())
    call.isBFloat16 = prepared[0].toTensor().scalar_type() == at::kBFloat16;
  for (const TensorArgument &given : tensors)
    if (given.slot == Slot::Number) {
      return "a number that a tensor holds";
    } else if (given.slot == Slot::OptionalTensorList) {
      auto members = prepared[given.argument].toOptionalTensorVector();
      call.hasMask |= std::any_of(members.begin(), members.end(), isMask);
    }
  return findHostRead(call);
}

at::Tensor AtenOp::castTensor() const {
  const c10::OperatorName &name = handle->operator_name();
  if (name.name != "aten::_to_copy" || !prepared[1].isInt() ||
      !prepared[6].isNone()) // a dtype, and no memory format
    return at::Tensor();
  return prepared[0].toTensor();
}

std::vector<int> AtenOp::operands() const {
  std::vector<int> operands;
  for (const TensorArgument &given : tensors)
    for (int v : given.values)
      if (v >= 0)
        operands.push_back(v);
  return operands;
}

} // namespace fsdp
