// Tests that sums of powers are those of PyTorch's norms, whatever the dtype,
// the layout and the number of threads; and that what runs on GPUs gives the
// same, on a CPU.
#include "TensorFunctions.h"
#include "operators/Operators.h"

#include <ATen/Parallel.h>
#include <cmath>
#include <gtest/gtest.h>

using namespace fsdp;

static double sum(const std::vector<at::Tensor> &tensors, double p) {
  return powerSum(tensors, p).item<double>();
}

TEST(PowerSum, IsThePowerOfTheNorm) {
  for (at::ScalarType type :
       {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    at::Tensor a = at::sin(at::arange(70'001, at::kDouble)).to(type);
    at::Tensor b = at::cos(at::arange(13, at::kDouble)).to(type);
    at::Tensor all = at::cat({a, b}).to(at::kDouble);
    for (double p : {1.0, 2.0, 3.0, 1.5})
      EXPECT_NEAR(sum({a, b}, p), std::pow(all.norm(p).item<double>(), p),
                  1e-12 * all.numel())
          << p;
    EXPECT_EQ(sum({a, b}, INFINITY), all.abs().max().item<double>());
  }
}

TEST(PowerSum, OfNothingIsZero) {
  for (double p : {1.0, 2.0, double(INFINITY)})
    EXPECT_EQ(sum({at::empty({0, 3})}, p), 0);
}

TEST(PowerSum, TheOrderOfDimensionsDoesNotMatter) {
  at::Tensor a = at::arange(12, at::kFloat).view({3, 4});
  EXPECT_EQ(sum({a.t()}, 2), sum({a}, 2));
  EXPECT_EQ(sum({a.slice(1, 0, 2)}, 1), 0 + 1 + 4 + 5 + 8 + 9);
}

TEST(PowerSum, NoNumberIsLargest) {
  at::Tensor a = at::ones({100});
  a[7] = NAN;
  for (const std::vector<at::Tensor> &list :
       {std::vector<at::Tensor>{a, at::full({3}, INFINITY)},
        std::vector<at::Tensor>{at::full({3}, INFINITY), a}})
    EXPECT_TRUE(std::isnan(sum(list, INFINITY)));
  EXPECT_TRUE(std::isinf(sum({at::full({3}, -INFINITY)}, 2)));
}

TEST(PowerSum, ThreadsDoNotChangeABit) {
  at::Tensor a = at::sin(at::arange(1'000'003, at::kFloat));
  int before = at::get_num_threads();
  at::set_num_threads(1);
  double alone = sum({a}, 2);
  at::set_num_threads(3);
  EXPECT_EQ(sum({a}, 2), alone);
  at::set_num_threads(before);
}

TEST(PowerSum, OnGpusIsTheSame) {
  at::Tensor x = at::sin(at::arange(70'000, at::kDouble));
  for (at::ScalarType type : {at::kBFloat16, at::kFloat, at::kDouble}) {
    std::vector<at::Tensor> list = {x.to(type), at::empty({0, 3}, type),
                                    x.to(type).view({700, 100}).t()};
    for (double p : {1.0, 2.0, 3.0, double(INFINITY)}) {
      at::Tensor ours = powerSumOfNorms(list, p);
      EXPECT_EQ(ours.scalar_type(), at::kDouble);
      EXPECT_NEAR(ours.item<double>(), sum(list, p), 1e-12 * 2 * x.numel());
    }
  }
  at::Tensor none = x.clone();
  none[7] = NAN;
  EXPECT_TRUE(std::isnan(powerSumOfNorms({none, x}, INFINITY).item<double>()));
  EXPECT_EQ(powerSumOfNorms({at::empty({0})}, INFINITY).item<double>(), 0);
}
