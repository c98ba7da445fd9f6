#include "RecordedKernels.h"

#include "ImitatedCuda.h"
#include "Memory.h"
#include "Streams.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <future>
#include <torch/library.h>

namespace fsdp::imitation {

namespace {

constexpr auto key = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local cudaStream_t inUse = nullptr; // null: nothing is captured
thread_local Memory::Contents before;      // of the device, when it began
thread_local const uint64_t *seedSource = nullptr;

/// A tensor on the same memory, which it does not keep: what it lies in is
/// given out again when the operator is over, in a replay as in the capture.
at::Tensor borrowed(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0)
    return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options());
}

c10::IValue borrowed(const c10::IValue &value) {
  if (value.isTensor())
    return borrowed(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &member : value.toTensorVector())
      list.push_back(borrowed(member));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> &member :
         value.toOptionalTensorVector())
      list.push_back(member ? std::optional(borrowed(*member)) : std::nullopt);
    return list;
  }
  return value;
}

std::vector<at::Tensor> tensorsOf(const std::vector<c10::IValue> &values) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue &value : values)
    if (value.isTensor())
      tensors.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor &member : value.toTensorVector())
        tensors.push_back(member);
  return tensors;
}

/// Calls the operator as it was captured; its results go where they were.
void callAgain(const c10::OperatorHandle &op,
               const std::vector<c10::IValue> &arguments,
               const std::vector<at::Tensor> &results, const uint64_t *seed) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  for (const c10::IValue &argument : arguments)
    if (seed && argument.isGenerator())
      argument.toGenerator().set_current_seed(*seed);
  std::vector<c10::IValue> stack = arguments;
  op.callBoxed(&stack);
  std::vector<at::Tensor> again = tensorsOf(stack);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined() && results[i].numel() != 0)
      at::Tensor(results[i]).copy_(again[i]);
}

void recordOperator(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard within(key);
  const c10::FunctionSchema &schema = op.schema();
  size_t count = schema.arguments().size();
  std::vector<c10::IValue> arguments;
  for (size_t i = 0; i < count; ++i)
    arguments.push_back(borrowed(torch::jit::peek(stack, i, count)));
  size_t below = stack->size() - count;
  op.callBoxed(stack);
  // Those that are an argument, or lie in one, need no copy.
  bool areNew = std::none_of(
      schema.returns().begin(), schema.returns().end(),
      [](const c10::Argument &result) { return result.alias_info(); });
  // Nobody computed what these hold.
  bool isBlank = schema.name().rfind("aten::empty", 0) == 0;
  bool isView = !areNew && !schema.is_mutable();
  if (isView || isBlank)
    return;
  std::vector<at::Tensor> results;
  if (areNew)
    for (const at::Tensor &result :
         tensorsOf({stack->begin() + below, stack->end()}))
      results.push_back(borrowed(result));
  // In a thread of its own, so that what it allocates is not taken from where
  // the executor puts the memory of its operators.
  enqueue(inUse, [op, arguments, results, seed = seedSource] {
    std::async(std::launch::async, callAgain, op, arguments, results, seed)
        .get();
  });
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(
      torch::CppFunction::makeFromBoxedFunction<&recordOperator>());
}

} // namespace

void recordKernels() {
  observeCaptures([](cudaStream_t stream) {
    if (stream)
      before = memory().contents(stream->gpu);
    else
      for (auto &[begin, bytes] : before)
        std::copy(bytes.begin(), bytes.end(), begin);
    inUse = stream;
    seedSource = nullptr;
    c10::impl::tls_set_dispatch_key_included(key, stream != nullptr);
  });
}

void recordOn(cudaStream_t stream) {
  if (inUse)
    inUse = stream;
}

void recordSeed(const uint64_t *seed) { seedSource = seed; }

} // namespace fsdp::imitation
