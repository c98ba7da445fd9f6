#include "plan/OperationText.h"
#include "plan/FormatText.h"

#include <cstdio>
#include <cstdlib>

using namespace fsdp;
using namespace fsdp::plan;

std::string fsdp::plan::numberText(double value) {
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {
    snprintf(text, sizeof(text), "%.*g", digits, value);
    if (strtod(text, nullptr) == value)
      break;
  }
  return text;
}

std::string fsdp::plan::scalarText(const ScalarT &scalar, const PlanT &plan) {
  auto ref = [](int i) { return "s" + std::to_string(i); };
  auto infix = [&](const char *op) {
    return ref(scalar.a) + " " + op + " " + ref(scalar.b);
  };
  switch (scalar.kind) {
  case ScalarKind::Constant:
    return numberText(scalar.value.value_or(0));
  case ScalarKind::Hyperparameter: {
    const HyperparameterT &one = *plan.hyperparameters[scalar.hyperparameter];
    return one.name + " of group " + std::to_string(one.group);
  }
  case ScalarKind::Step:
    return "step";
  case ScalarKind::Rank:
    return "rank";
  case ScalarKind::Add:
    return infix("+");
  case ScalarKind::Subtract:
    return infix("-");
  case ScalarKind::Multiply:
    return infix("*");
  case ScalarKind::Divide:
    return infix("/");
  case ScalarKind::Power:
    return infix("**");
  case ScalarKind::Negate:
    return "-" + ref(scalar.a);
  case ScalarKind::Select:
    return infix("==") + " ? " + ref(scalar.c) + " : " + ref(scalar.d);
  case ScalarKind::State:
    return "state " + plan.states[scalar.state]->fqn;
  case ScalarKind::SelectLess:
    return infix("<") + " ? " + ref(scalar.c) + " : " + ref(scalar.d);
  case ScalarKind::SelectLessEqual:
    return infix("<=") + " ? " + ref(scalar.c) + " : " + ref(scalar.d);
  case ScalarKind::SquareRoot:
    return "sqrt(" + ref(scalar.a) + ")";
  case ScalarKind::Exponential:
    return "exp(" + ref(scalar.a) + ")";
  case ScalarKind::Logarithm:
    return "log(" + ref(scalar.a) + ")";
  case ScalarKind::Cosine:
    return "cos(" + ref(scalar.a) + ")";
  case ScalarKind::Round:
    return "float32(" + ref(scalar.a) + ")";
  case ScalarKind::Former:
    return ref(scalar.a) + " before, " + ref(scalar.b) + " at first";
  }
  return "?";
}

std::string fsdp::plan::valuesText(const std::vector<int> &values) {
  std::string text;
  for (int value : values)
    appendListed(text, value < 0 ? "none" : "%" + std::to_string(value));
  return text;
}

static std::string numbersText(const std::vector<double> &list) {
  std::string text;
  for (double number : list)
    appendListed(text, numberText(number));
  return "[" + text + "]";
}

static std::string argumentText(const ArgumentT &argument) {
  switch (argument.kind) {
  case ArgumentKind::Default:
    return "default";
  case ArgumentKind::None:
    return "none";
  case ArgumentKind::Value:
    return "%" + std::to_string(argument.value);
  case ArgumentKind::ValueList:
    return "[" + valuesText(argument.values) + "]";
  case ArgumentKind::Int:
    return std::to_string(argument.i);
  case ArgumentKind::Bool:
    return argument.i ? "true" : "false";
  case ArgumentKind::IntList:
  case ArgumentKind::BoolList:
    return formatShape(argument.ints);
  case ArgumentKind::Double:
    return numberText(argument.d.value_or(0));
  case ArgumentKind::DoubleList:
    return numbersText(argument.doubles);
  case ArgumentKind::String:
    return "'" + argument.s + "'";
  case ArgumentKind::Complex:
    return "complex" + numbersText(argument.doubles);
  case ArgumentKind::Scalar:
    return "s" + std::to_string(argument.value);
  case ArgumentKind::DType:
    return dtypeName(static_cast<DType>(argument.i));
  case ArgumentKind::Generator:
    return "generator " + std::to_string(argument.i);
  }
  return "?";
}

std::string fsdp::plan::shardsText(const ShardRange *on) {
  if (!on)
    return "";
  std::string first = std::to_string(on->first());
  return on->end() == on->first() + 1
             ? " on shard " + first
             : " on shards " + first + " to " + std::to_string(on->end() - 1);
}

std::string fsdp::plan::operatorName(const std::string &name,
                                     const std::string &overload) {
  return overload.empty() ? name : name + "." + overload;
}

std::string fsdp::plan::operatorName(const AtenT &call) {
  return operatorName(call.name, call.overload);
}

std::string fsdp::plan::callText(const AtenT &call) {
  // Trailing defaults say nothing.
  size_t count = call.arguments.size();
  while (count && call.arguments[count - 1]->kind == ArgumentKind::Default)
    --count;
  std::string arguments;
  for (size_t i = 0; i < count; ++i)
    appendListed(arguments, argumentText(*call.arguments[i]));
  std::string text =
      call.results.empty() ? "" : valuesText(call.results) + " = ";
  text += (call.view ? "view " : "") + operatorName(call) + "(" + arguments +
          ")" + (call.recomputed ? " recomputed" : "") +
          shardsText(call.on.get());
  if (call.measured_seconds)
    text += formatText(" measured %.1f us", 1e6 * *call.measured_seconds);
  return text;
}
