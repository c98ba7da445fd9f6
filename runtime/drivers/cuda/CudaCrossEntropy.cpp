// Cross-entropy on a GPU: see operators/Operators.def.

#include "device/CrossEntropyOperands.h"
#include "drivers/cuda/CompiledKernels.h"
#include "drivers/cuda/CrossEntropyKernels.h"
#include "drivers/cuda/CudaOperators.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <algorithm>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>
#include <tuple>

namespace fsdp {

namespace {

CompiledKernels &kernels() {
  // Never destroyed: the driver may have ended before it.
  static auto *compiled =
      new CompiledKernels("cross_entropy", kCrossEntropyKernels);
  return *compiled;
}

/// "sums" of float32 is sums_float32.
std::string named(const char *kernel, c10::ScalarType type) {
  const char *suffix = type == at::kFloat      ? "_float32"
                       : type == at::kBFloat16 ? "_bfloat16"
                                               : "_float16";
  return std::string(kernel) + suffix;
}

template <typename... Arguments>
void launch(const char *kernel, c10::ScalarType type, int64_t blocks,
            unsigned threads, Arguments... arguments) {
  void *addresses[] = {&arguments...};
  kernels().launch(named(kernel, type).c_str(), dim3(unsigned(blocks)),
                   dim3(threads), addresses, c10::cuda::getCurrentCUDAStream());
}

/// Rows of logits, as the kernels take them.
struct Rows {
  const void *data;
  int64_t rows, classes, vectors;

  /// `other` is read or written in the same way.
  Rows(const at::Tensor &logits, const at::Tensor &other)
      : data(logits.const_data_ptr()), rows(logits.size(0)),
        classes(logits.size(1)), vectors(0) {
    constexpr uintptr_t bytes = 16;
    auto isAligned = [](const at::Tensor &tensor) {
      return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % bytes == 0;
    };
    int64_t rowBytes = classes * int64_t(logits.element_size());
    if (rowBytes % bytes == 0 && isAligned(logits) && isAligned(other))
      vectors = rowBytes / int64_t(bytes);
  }

  /// One for each vector, as far as a block has so many.
  unsigned threads() const {
    int64_t wanted = (vectors ? vectors : classes) / 4;
    return unsigned(
        std::min<int64_t>(1024, std::max<int64_t>(1, wanted / 32) * 32));
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor>
crossEntropy(const at::Tensor &logits, const at::Tensor &target,
             int64_t reduction, int64_t ignoreIndex) {
  checkCrossEntropy(logits, target, reduction);
  at::Tensor output = at::empty({}, logits.options().dtype(at::kFloat));
  at::Tensor total = at::empty({}, output.options());
  at::Tensor logsumexp = at::empty({logits.size(0)}, output.options());
  Rows all(logits, logits);
  float *sums = logsumexp.mutable_data_ptr<float>();
  c10::ScalarType type = logits.scalar_type();
  if (all.rows)
    launch("sums", type, all.rows, all.threads(), all.data, all.classes,
           all.vectors, sums);
  bool isMean = reduction == int64_t(CrossEntropyReduction::Mean);
  launch("loss", type, 1, 1024, all.data, all.classes,
         target.const_data_ptr<int64_t>(), all.rows, ignoreIndex, isMean, sums,
         output.mutable_data_ptr<float>(), total.mutable_data_ptr<float>());
  return {output, total, logsumexp};
}

at::Tensor crossEntropyBackward(const at::Tensor &gradient,
                                const at::Tensor &logits,
                                const at::Tensor &target, int64_t reduction,
                                int64_t ignoreIndex,
                                const at::Tensor &totalWeight,
                                const at::Tensor &logsumexp) {
  checkCrossEntropyBackward(gradient, logits, target, reduction, totalWeight,
                            logsumexp);
  at::Tensor gradInput = at::empty_like(logits);
  Rows all(logits, gradInput);
  bool isMean = reduction == int64_t(CrossEntropyReduction::Mean);
  if (all.rows)
    launch("backward", logits.scalar_type(), all.rows, all.threads(), all.data,
           all.classes, all.vectors, target.const_data_ptr<int64_t>(),
           ignoreIndex, isMean, gradient.const_data_ptr<float>(),
           totalWeight.const_data_ptr<float>(),
           logsumexp.const_data_ptr<float>(), gradInput.mutable_data_ptr());
  return gradInput;
}

} // namespace

void registerCudaOperators() {
  static const bool registered = [] {
    static torch::Library library(torch::Library::IMPL, "fsdp_mlir",
                                  c10::DispatchKey::CUDA, __FILE__, __LINE__);
    library.impl("cross_entropy", TORCH_FN(crossEntropy));
    library.impl("cross_entropy_backward", TORCH_FN(crossEntropyBackward));
    return true;
  }();
  static_cast<void>(registered);
}

} // namespace fsdp
