// check_calls: what the checker says of calls by themselves. Reads a line of
// JSON for each, writes what is wrong with it, or an empty line.
//
//   {"name": "aten::mm", "overload": "", "arguments": [...]}
//
// An argument is null, a number, a truth value, a text, or {"tensor": [shape],
// "dtype": "float32", "least": 0, "most": 7} (these two of indices alone, which
// the executor compares in each step), {"tensors": [...]}, {"integers": [...]},
// {"numbers": [...]}, {"dtype": ...}; {} stands for the default.
#include "device/ScalarType.h"
#include "executor/IndexBounds.h"
#include "operators/DispatcherSchemas.h"
#include "plan/DTypes.h"
#include "plan/check/OperatorChecker.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros.h>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace fsdp::plan;
using Json = nlohmann::json;

static DType dtypeOf(const std::string &name) {
  for (int i = 0; i <= int(DType::MAX); ++i)
    if (dtypeName(DType(i)) == name)
      return DType(i);
  throw std::invalid_argument("no dtype " + name);
}

static int addTensor(ProgramT &program, const Json &json) {
  auto value = std::make_unique<ValueT>();
  value->shape = json.at("tensor").get<std::vector<int64_t>>();
  value->strides = rowMajorStrides(value->shape);
  value->dtype = dtypeOf(json.at("dtype"));
  program.values.push_back(std::move(value));
  return program.values.size() - 1;
}

static std::unique_ptr<ArgumentT> argumentOf(ProgramT &program,
                                             const Json &json) {
  auto argument = std::make_unique<ArgumentT>();
  auto set = [&](ArgumentKind kind) { argument->kind = kind; };
  if (json.is_null()) {
    set(ArgumentKind::None);
  } else if (json.is_boolean()) {
    set(ArgumentKind::Bool), argument->i = json.get<bool>();
  } else if (json.is_number_integer()) {
    set(ArgumentKind::Int), argument->i = json;
  } else if (json.is_number()) {
    set(ArgumentKind::Double), argument->d = json;
  } else if (json.is_string()) {
    set(ArgumentKind::String), argument->s = json;
  } else if (json.contains("tensor")) {
    set(ArgumentKind::Value), argument->value = addTensor(program, json);
  } else if (json.contains("tensors")) {
    set(ArgumentKind::ValueList);
    for (const Json &member : json["tensors"])
      argument->values.push_back(member.is_null() ? -1
                                                  : addTensor(program, member));
  } else if (json.contains("integers")) {
    set(ArgumentKind::IntList);
    argument->ints = json["integers"].get<std::vector<int64_t>>();
  } else if (json.contains("truths")) {
    set(ArgumentKind::BoolList);
    argument->ints = json["truths"].get<std::vector<int64_t>>();
  } else if (json.contains("numbers")) {
    set(ArgumentKind::DoubleList);
    argument->doubles = json["numbers"].get<std::vector<double>>();
  } else if (json.contains("dtype")) {
    set(ArgumentKind::DType), argument->i = int64_t(dtypeOf(json["dtype"]));
  } else if (json.contains("site")) {
    set(ArgumentKind::Generator);
  }
  return argument;
}

/// What the executor compares of an argument: a tensor's shape and its indices,
/// and numbers.
static c10::IValue valueOf(const Json &json) {
  if (json.is_number_integer())
    return json.get<int64_t>();
  if (!json.contains("tensor"))
    return {};
  at::Tensor tensor = at::zeros(json["tensor"].get<std::vector<int64_t>>(),
                                fsdp::toScalarType(dtypeOf(json.at("dtype"))));
  if (json.contains("least")) {
    tensor.view({-1})[0] = json["least"].get<int64_t>();
    tensor.view({-1})[-1] = json["most"].get<int64_t>();
  }
  return tensor;
}

static void checkIndices(const Json &json) {
  const c10::FunctionSchema &schema =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(json["name"].get<std::string>().c_str(),
                             json["overload"].get<std::string>().c_str())
          .schema();
  torch::jit::Stack stack;
  for (const Json &argument : json["arguments"])
    stack.push_back(valueOf(argument));
  if (fsdp::IndexBounds bounds(schema); !bounds.empty())
    bounds.check(schema, stack, schema.name());
}

static std::string check(const Json &json) {
  PlanT plan;
  plan.programs.push_back(std::make_unique<ProgramT>());
  ProgramT &program = *plan.programs[0];
  AtenT call;
  call.name = json.at("name");
  call.overload = json.at("overload");
  for (const Json &argument : json.at("arguments"))
    call.arguments.push_back(argumentOf(program, argument));
  auto schema = fsdp::findDispatcherSchema(call.name, call.overload);
  for (size_t i = 0; schema && i < schema->results.size(); ++i)
    for (int k = 0; k <= schema->results[i].type.list; ++k)
      if (schema->results[i].type.isTensor())
        call.results.push_back(-1);
  program.commands.push_back(std::make_unique<CommandT>());
  program.commands[0]->operation.Set(std::move(call));
  try {
    checkOperators(plan, fsdp::findDispatcherSchema);
    checkIndices(json);
    return "";
  } catch (const fsdp::Error &error) {
    return error.what();
  }
}

int main() {
  std::string line;
  while (std::getline(std::cin, line))
    try {
      std::cout << check(Json::parse(line)) << "\n";
    } catch (const std::exception &error) {
      // What no plan can hold: another dtype, a number that is none.
      std::cout << "no call: " << error.what() << "\n";
    }
  return 0;
}
