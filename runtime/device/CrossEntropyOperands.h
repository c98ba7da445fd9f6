// What the kernels of cross-entropy ask of their operands, on every device.

#ifndef FSDP_RUNTIME_DEVICE_CROSSENTROPYOPERANDS_H
#define FSDP_RUNTIME_DEVICE_CROSSENTROPYOPERANDS_H

#include <ATen/core/Tensor.h>

namespace fsdp {

/// How rows become one number: PyTorch's at::Reduction.
enum class CrossEntropyReduction : int64_t { Mean = 1, Sum = 2 };

/// Throws c10::Error unless these are rows of logits and their classes.
inline void checkCrossEntropy(const at::Tensor &logits,
                              const at::Tensor &target, int64_t reduction) {
  c10::ScalarType type = logits.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf,
              "cross_entropy takes logits in float32, bfloat16 or float16, not "
              "in ",
              type);
  TORCH_CHECK(logits.dim() == 2 && logits.is_contiguous() && logits.size(1) > 0,
              "cross_entropy takes row-major logits [rows, classes], not ",
              logits.sizes());
  TORCH_CHECK(target.scalar_type() == at::kLong && target.dim() == 1 &&
                  target.is_contiguous() && target.size(0) == logits.size(0) &&
                  target.device() == logits.device(),
              "cross_entropy takes one int64 class for each of ",
              logits.size(0), " rows, not ", target.scalar_type(), " ",
              target.sizes());
  TORCH_CHECK(reduction == int64_t(CrossEntropyReduction::Mean) ||
                  reduction == int64_t(CrossEntropyReduction::Sum),
              "cross_entropy gives the mean or the sum of rows, not reduction ",
              reduction);
}

/// The same, and of what the forward has left and what comes back.
inline void checkCrossEntropyBackward(const at::Tensor &gradient,
                                      const at::Tensor &logits,
                                      const at::Tensor &target,
                                      int64_t reduction,
                                      const at::Tensor &totalWeight,
                                      const at::Tensor &logsumexp) {
  checkCrossEntropy(logits, target, reduction);
  for (const at::Tensor *number : {&gradient, &totalWeight})
    TORCH_CHECK(number->scalar_type() == at::kFloat && number->numel() == 1 &&
                    number->device() == logits.device(),
                "cross_entropy_backward takes one float32 number, not ",
                number->scalar_type(), " ", number->sizes());
  TORCH_CHECK(logsumexp.scalar_type() == at::kFloat && logsumexp.dim() == 1 &&
                  logsumexp.is_contiguous() &&
                  logsumexp.size(0) == logits.size(0) &&
                  logsumexp.device() == logits.device(),
              "cross_entropy_backward takes one float32 logsumexp for each of ",
              logits.size(0), " rows, not ", logsumexp.scalar_type(), " ",
              logsumexp.sizes());
}

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_CROSSENTROPYOPERANDS_H
