// What each kernel of a product takes.

#include "operators/MeasureKernels.h"

#include "device/ScalarType.h"
#include "operators/Operators.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <algorithm>
#include <ctime>

namespace fsdp {

namespace {

constexpr unsigned leastCalls = 5;
constexpr double secondsPerKernel = 0.05;

/// Of this thread's own time where it computes alone: what other processes take
/// from it does not count.
double now() {
  timespec time;
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID
                                           : CLOCK_MONOTONIC,
                &time);
  return double(time.tv_sec) + time.tv_nsec * 1e-9;
}

/// One kernel with its operands, as a plan's command calls it.
class Call {
public:
  Call(const cost::Kernel &kernel, const std::vector<at::Tensor> &operands,
       std::vector<cost::Numbers> numbers)
      : kernel(kernel), handle(find(std::string(kernel.callee))) {
    for (const at::Tensor &operand : operands)
      prepared.push_back(operand);
    const auto &arguments = handle.schema().arguments();
    numbers.resize(arguments.size() - operands.size());
    for (size_t i = 0; i < numbers.size(); ++i)
      prepared.push_back(valueOf(arguments[operands.size() + i], numbers[i]));
  }

  double run() {
    stack.assign(prepared.begin(), prepared.end());
    double begin = now();
    handle.callBoxed(&stack);
    double seconds = now() - begin;
    stack.clear();
    // Of a product that is shorter than the clock's tick.
    return std::max(seconds, 1e-9);
  }

  const cost::Kernel &kernel;
  double least = 0;

private:
  static c10::IValue valueOf(const c10::Argument &argument,
                             const cost::Numbers &numbers) {
    if (!numbers)
      return argument.default_value().value_or(c10::IValue());
    c10::TypePtr type = argument.type();
    if (auto optional = type->cast<c10::OptionalType>())
      type = optional->getElementType();
    auto list = type->cast<c10::ListType>();
    if (!list)
      return single(*type, numbers->at(0));
    c10::impl::GenericList values(list->getElementType());
    for (double number : *numbers)
      values.push_back(single(*list->getElementType(), number));
    return values;
  }

  static c10::IValue single(const c10::Type &type, double number) {
    if (type.kind() == c10::TypeKind::BoolType)
      return number != 0;
    if (type.kind() == c10::TypeKind::FloatType)
      return number;
    return static_cast<int64_t>(number);
  }

  static c10::OperatorHandle find(std::string callee) {
    registerOperators();
    if (callee.find("::") == std::string::npos)
      callee.insert(0, "aten::");
    size_t dot = callee.find('.');
    std::string overload =
        dot == std::string::npos ? "" : callee.substr(dot + 1);
    return c10::Dispatcher::singleton().findSchemaOrThrow(
        callee.substr(0, dot).c_str(), overload.c_str());
  }

  c10::OperatorHandle handle;
  std::vector<c10::IValue> prepared, stack;
};

std::vector<at::Tensor> operandsOf(const cost::Product &product) {
  std::vector<at::Tensor> operands;
  for (const cost::Operand &operand : product.operands) {
    at::Tensor tensor = at::empty_strided(operand.shape, operand.strides,
                                          toScalarType(operand.dtype));
    // No kernel is slower for what it computes with, as long as it is normal.
    operands.push_back(tensor.uniform_(-1, 1));
  }
  return operands;
}

} // namespace

std::map<std::string, double> measureKernels(const cost::Product &product) {
  at::NoGradGuard noGradients;
  std::vector<at::Tensor> operands = operandsOf(product);
  std::vector<Call> calls;
  for (const cost::Kernel *kernel : cost::kernelsOf(product.family)) {
    Call call(*kernel, operands, product.numbers);
    try {
      call.run(); // makes what it keeps, and takes its memory
      call.least = call.run();
    } catch (const c10::Error &) {
      continue;
    }
    calls.push_back(std::move(call));
  }
  double end = now() + secondsPerKernel * calls.size();
  for (unsigned i = 0; i < leastCalls || now() < end; ++i)
    for (Call &call : calls)
      call.least = std::min(call.least, call.run());
  std::map<std::string, double> seconds;
  for (const Call &call : calls)
    seconds[std::string(call.kernel.name)] = call.least;
  return seconds;
}

} // namespace fsdp
