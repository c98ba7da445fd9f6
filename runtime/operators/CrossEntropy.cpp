// Cross-entropy on a CPU, a row at a time.

#include "device/CrossEntropyOperands.h"
#include "operators/Operators.h"
#include "operators/VectorLoops.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <algorithm>
#include <cmath>

namespace fsdp {

namespace {

/// Rows of logits with their classes; of the backward, `scale` is what each
/// row's gradient is multiplied by.
template <typename T> struct Rows {
  const T *logits;
  const int64_t *target;
  int64_t classes, ignored;
  float scale = 0;

  /// Of a row that has one.
  int64_t classOf(int64_t row) const {
    TORCH_CHECK_INDEX(target[row] >= 0 && target[row] < classes, "Target ",
                      target[row], " is out of bounds.");
    return target[row];
  }
};

template <typename T>
FSDP_INLINE float logsumexpOf(const T *row, int64_t classes) {
  float most =
      largestOf(classes, [=](int64_t j) { return Number<T>::widen(row[j]); });
  // Where all are -inf, nothing can be subtracted.
  float from = most == -HUGE_VALF ? 0 : most, sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < classes; ++j)
    sum += exponential(Number<T>::widen(row[j]) - from);
  return from + std::log(sum);
}

template <typename T>
FSDP_INLINE void sumRows(const Rows<T> &all, int64_t first, int64_t last,
                         float *sums) {
  for (int64_t i = first; i < last; ++i)
    sums[i] = logsumexpOf(all.logits + i * all.classes, all.classes);
}

template <typename T>
FSDP_INLINE void backwardRows(const Rows<T> &all, int64_t first, int64_t last,
                              const float *sums, T *gradInput) {
  for (int64_t i = first; i < last; ++i) {
    const T *row = all.logits + i * all.classes;
    T *to = gradInput + i * all.classes;
    if (all.target[i] == all.ignored) {
      std::fill_n(to, all.classes, T(0));
      continue;
    }
    int64_t own = all.classOf(i);
    float sum = sums[i];
#pragma omp simd
    for (int64_t j = 0; j < all.classes; ++j)
      to[j] = Number<T>::narrow(exponential(Number<T>::widen(row[j]) - sum) *
                                all.scale);
    float share = exponential(Number<T>::widen(row[own]) - sum);
    to[own] = Number<T>::narrow((share - 1) * all.scale);
  }
}

#ifdef __x86_64__
template <typename T>
__attribute__((target("avx2,fma"))) void
sumRowsWide(const Rows<T> &all, int64_t first, int64_t last, float *sums) {
  sumRows(all, first, last, sums);
}
template <typename T>
__attribute__((target("avx2,fma"))) void
backwardRowsWide(const Rows<T> &all, int64_t first, int64_t last,
                 const float *sums, T *gradInput) {
  backwardRows(all, first, last, sums, gradInput);
}
#else
template <typename T> constexpr auto sumRowsWide = sumRows<T>;
template <typename T> constexpr auto backwardRowsWide = backwardRows<T>;
#endif

/// A thread is worth its start for some ten thousand logits.
template <typename Function>
void forRows(const at::Tensor &logits, Function compute) {
  constexpr int64_t logitsPerThread = 16384;
  int64_t grain = std::max<int64_t>(1, logitsPerThread / logits.size(1));
  at::parallel_for(0, logits.size(0), grain, compute);
}

} // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor>
crossEntropy(const at::Tensor &logits, const at::Tensor &target,
             int64_t reduction, int64_t ignoreIndex) {
  checkCrossEntropy(logits, target, reduction);
  int64_t rows = logits.size(0);
  at::Tensor output = at::empty({}, logits.options().dtype(at::kFloat));
  at::Tensor total = at::empty({}, output.options());
  at::Tensor logsumexp = at::empty({rows}, output.options());
  float *sums = logsumexp.mutable_data_ptr<float>();
  double loss = 0;
  int64_t counted = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, logits.scalar_type(), "cross_entropy", [&] {
        using T = scalar_t;
        Rows<T> all = {logits.const_data_ptr<T>(),
                       target.const_data_ptr<int64_t>(), logits.size(1),
                       ignoreIndex};
        forRows(logits, [&](int64_t first, int64_t last) {
          (hasWideVectors() ? sumRowsWide<T> : sumRows<T>)(all, first, last,
                                                           sums);
        });
        for (int64_t i = 0; i < rows; ++i) {
          if (all.target[i] == ignoreIndex)
            continue;
          int64_t own = i * all.classes + all.classOf(i);
          loss += sums[i] - Number<T>::widen(all.logits[own]);
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
  float scale = *gradient.const_data_ptr<float>();
  if (reduction == int64_t(CrossEntropyReduction::Mean))
    scale /= *totalWeight.const_data_ptr<float>();
  at::Tensor gradInput = at::empty_like(logits);
  const float *sums = logsumexp.const_data_ptr<float>();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, logits.scalar_type(), "cross_entropy_backward",
      [&] {
        using T = scalar_t;
        Rows<T> all = {logits.const_data_ptr<T>(),
                       target.const_data_ptr<int64_t>(), logits.size(1),
                       ignoreIndex, scale};
        T *to = gradInput.mutable_data_ptr<T>();
        forRows(logits, [&](int64_t first, int64_t last) {
          (hasWideVectors() ? backwardRowsWide<T>
                            : backwardRows<T>)(all, first, last, sums, to);
        });
      });
  return gradInput;
}

} // namespace fsdp
