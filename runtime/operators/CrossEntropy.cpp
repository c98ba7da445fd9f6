// Cross-entropy on a CPU, a row at a time.

#include "comm/ReducedPrecision.h"
#include "device/CrossEntropyOperands.h"
#include "operators/Operators.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <algorithm>
#include <cmath>

namespace fsdp {

namespace {

template <typename T> float logsumexpOf(const T *row, int64_t classes) {
  float most = -HUGE_VALF;
  for (int64_t j = 0; j < classes; ++j)
    most = std::max(most, float(Number<T>::widen(row[j])));
  // Where all are -inf, nothing can be subtracted.
  float from = most == -HUGE_VALF ? 0 : most, sum = 0;
  for (int64_t j = 0; j < classes; ++j)
    sum += std::exp(Number<T>::widen(row[j]) - from);
  return from + std::log(sum);
}

/// Of a row that has a class.
int64_t classOf(int64_t target, int64_t classes) {
  TORCH_CHECK_INDEX(target >= 0 && target < classes, "Target ", target,
                    " is out of bounds.");
  return target;
}

template <typename Function>
void forRows(const at::Tensor &logits, Function compute) {
  constexpr int64_t elementsPerThread = 16384;
  int64_t grain = std::max<int64_t>(1, elementsPerThread / logits.size(1));
  at::parallel_for(0, logits.size(0), grain, compute);
}

} // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor>
crossEntropy(const at::Tensor &logits, const at::Tensor &target,
             int64_t reduction, int64_t ignoreIndex) {
  checkCrossEntropy(logits, target, reduction);
  int64_t rows = logits.size(0), classes = logits.size(1);
  at::Tensor output = at::empty({}, logits.options().dtype(at::kFloat));
  at::Tensor total = at::empty({}, output.options());
  at::Tensor logsumexp = at::empty({rows}, output.options());
  float *sums = logsumexp.mutable_data_ptr<float>();
  const int64_t *targets = target.const_data_ptr<int64_t>();
  double loss = 0;
  int64_t counted = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, logits.scalar_type(), "cross_entropy", [&] {
        const scalar_t *data = logits.const_data_ptr<scalar_t>();
        forRows(logits, [&](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i)
            sums[i] = logsumexpOf(data + i * classes, classes);
        });
        for (int64_t i = 0; i < rows; ++i) {
          if (targets[i] == ignoreIndex)
            continue;
          int64_t j = i * classes + classOf(targets[i], classes);
          loss += sums[i] - Number<scalar_t>::widen(data[j]);
          ++counted;
        }
      });
  if (reduction == int64_t(CrossEntropyReduction::Mean))
    loss /= double(counted);
  *output.mutable_data_ptr<float>() = float(loss);
  *total.mutable_data_ptr<float>() = float(counted);
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
  int64_t classes = logits.size(1);
  float scale = *gradient.const_data_ptr<float>();
  if (reduction == int64_t(CrossEntropyReduction::Mean))
    scale /= *totalWeight.const_data_ptr<float>();
  at::Tensor result = at::empty_like(logits);
  const float *sums = logsumexp.const_data_ptr<float>();
  const int64_t *targets = target.const_data_ptr<int64_t>();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, logits.scalar_type(), "cross_entropy_backward",
      [&] {
        const scalar_t *data = logits.const_data_ptr<scalar_t>();
        scalar_t *to = result.mutable_data_ptr<scalar_t>();
        forRows(logits, [&](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i) {
            const scalar_t *row = data + i * classes;
            scalar_t *gradients = to + i * classes;
            if (targets[i] == ignoreIndex) {
              std::fill_n(gradients, classes, scalar_t(0));
              continue;
            }
            int64_t own = classOf(targets[i], classes);
            for (int64_t j = 0; j < classes; ++j) {
              float share = std::exp(Number<scalar_t>::widen(row[j]) - sums[i]);
              gradients[j] =
                  Number<scalar_t>::narrow((share - float(j == own)) * scale);
            }
          }
        });
      });
  return result;
}

} // namespace fsdp
