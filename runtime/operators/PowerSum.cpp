#include "operators/Operators.h"

#include "comm/ReducedPrecision.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <cmath>
#include <limits>
#include <vector>

namespace fsdp {

namespace {

/// What an element adds to those before it, and how two such sums become one.
struct Sum {
  static double join(double a, double b) { return a + b; }
};
struct Magnitudes : Sum {
  double add(double sum, double x) const { return sum + std::fabs(x); }
};
struct Squares : Sum {
  double add(double sum, double x) const { return sum + x * x; }
};
struct Powers : Sum {
  double p;
  explicit Powers(double p) : p(p) {}
  double add(double sum, double x) const {
    return sum + std::pow(std::fabs(x), p);
  }
};
struct Largest {
  static double join(double a, double b) { return a > b || a != a ? a : b; }
  double add(double most, double x) const { return join(most, std::fabs(x)); }
};

// Sums of their own, so that additions do not wait for each other.
constexpr int64_t lanes = 16;
// What one thread sums at a time. Not its number of threads, so that these do
// not change the order of additions.
constexpr int64_t chunkElements = 64 * 1024;

template <typename T, typename Term>
double sumOf(const T *x, int64_t count, const Term &term) {
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] = term.add(sums[lane], Number<T>::widen(x[i + lane]));
  for (; i < count; ++i)
    sums[i % lanes] = term.add(sums[i % lanes], Number<T>::widen(x[i]));
  double sum = 0;
  for (double part : sums)
    sum = Term::join(sum, part);
  return sum;
}

template <typename Term>
double sumOf(const at::Tensor &given, const Term &term) {
  // In the order of memory.
  at::Tensor tensor =
      given.is_non_overlapping_and_dense() ? given : given.contiguous();
  int64_t count = tensor.numel();
  std::vector<double> sums((count + chunkElements - 1) / chunkElements);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, tensor.scalar_type(), "power_sum", [&] {
        const scalar_t *data = tensor.const_data_ptr<scalar_t>();
        at::parallel_for(0, sums.size(), 1, [&](int64_t first, int64_t last) {
          for (int64_t c = first; c < last; ++c) {
            int64_t begin = c * chunkElements;
            sums[c] = sumOf(data + begin,
                            std::min(chunkElements, count - begin), term);
          }
        });
      });
  double sum = 0;
  for (double part : sums)
    sum = Term::join(sum, part);
  return sum;
}

template <typename Term>
double sumOf(at::TensorList tensors, const Term &term) {
  double sum = 0;
  for (const at::Tensor &tensor : tensors)
    sum = Term::join(sum, sumOf(tensor, term));
  return sum;
}

double sumOf(at::TensorList tensors, double p) {
  if (p == 1)
    return sumOf(tensors, Magnitudes());
  if (p == 2)
    return sumOf(tensors, Squares());
  if (p == std::numeric_limits<double>::infinity())
    return sumOf(tensors, Largest());
  return sumOf(tensors, Powers(p));
}

} // namespace

at::Tensor powerSum(at::TensorList tensors, double p) {
  at::Tensor sum = at::empty({}, at::kDouble);
  *sum.mutable_data_ptr<double>() = sumOf(tensors, p);
  return sum;
}

at::Tensor powerSumOfNorms(at::TensorList tensors, double p) {
  bool largest = p == std::numeric_limits<double>::infinity();
  // The largest of nothing is an error; as a sum it is none the less zero.
  std::vector<at::Tensor> given;
  for (const at::Tensor &tensor : tensors)
    if (tensor.numel() != 0)
      given.push_back(tensor);
  if (given.empty())
    return at::zeros({}, tensors.front().options().dtype(at::kDouble));
  at::Tensor norms = at::stack(at::_foreach_norm(given, p, at::kDouble));
  if (largest)
    return norms.amax();
  return p == 1 ? norms.sum() : norms.pow(p).sum();
}

} // namespace fsdp
