// Tests that cross-entropy as one operator is what PyTorch gives by two.
#include "operators/Operators.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <cmath>
#include <gtest/gtest.h>

using namespace fsdp;

namespace {

constexpr int64_t mean = 1, sum = 2, ignored = -100;

struct Results {
  at::Tensor loss, total, gradient;
};

/// Of logits that PyTorch's operators are given in float32.
Results byTwo(const at::Tensor &logits, const at::Tensor &target,
              int64_t reduction, const at::Tensor &gradient) {
  at::Tensor logs = at::_log_softmax(logits.to(at::kFloat), 1, false);
  auto [loss, total] =
      at::nll_loss_forward(logs, target, {}, reduction, ignored);
  at::Tensor gradients = at::nll_loss_backward(gradient, logs, target, {},
                                               reduction, ignored, total);
  gradients = at::_log_softmax_backward_data(gradients, logs, 1, at::kFloat);
  return {loss, total, gradients.to(logits.scalar_type())};
}

Results byOne(const at::Tensor &logits, const at::Tensor &target,
              int64_t reduction, const at::Tensor &gradient) {
  auto [loss, total, sums] = crossEntropy(logits, target, reduction, ignored);
  return {loss, total,
          crossEntropyBackward(gradient, logits, target, reduction, ignored,
                               total, sums)};
}

class CrossEntropy : public testing::TestWithParam<c10::ScalarType> {
protected:
  // What other tests have drawn changes no number here.
  void SetUp() override { at::manual_seed(1); }

  at::Tensor draw(at::IntArrayRef sizes) {
    return (at::randn(sizes) * 4).to(GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(Types, CrossEntropy,
                         testing::Values(at::kFloat, at::kBFloat16, at::kHalf));

} // namespace

TEST_P(CrossEntropy, IsTheLikelihoodOfTheLogSoftmax) {
  at::Tensor gradient = at::full({}, 3.0, at::kFloat);
  for (int64_t classes : {1, 7, 32, 1003})
    for (int64_t reduction : {mean, sum}) {
      at::Tensor logits = draw({9, classes});
      at::Tensor target = at::randint(classes, {9}, at::kLong);
      target[4] = ignored;
      Results found = byOne(logits, target, reduction, gradient);
      Results expected = byTwo(logits, target, reduction, gradient);
      EXPECT_TRUE(at::allclose(found.loss, expected.loss, 1e-5, 1e-6));
      EXPECT_TRUE(at::equal(found.total, expected.total));
      double step = GetParam() == at::kFloat ? 1e-5 : 0.01;
      EXPECT_EQ(found.gradient.scalar_type(), GetParam());
      EXPECT_TRUE(at::allclose(found.gradient, expected.gradient, step, 1e-6));
    }
}

TEST_P(CrossEntropy, ClassesThatCannotBeHaveNoShare) {
  at::Tensor logits = draw({2, 5}), target = at::full({2}, 1, at::kLong);
  logits[0][3] = -HUGE_VALF;
  at::Tensor gradient = at::full({}, 1.0, at::kFloat);
  Results found = byOne(logits, target, mean, gradient);
  EXPECT_TRUE(std::isfinite(found.loss.item<float>()));
  EXPECT_EQ(found.gradient[0][3].item<float>(), 0);
  logits[1].fill_(-HUGE_VALF);
  EXPECT_TRUE(
      std::isnan(byOne(logits, target, mean, gradient).loss.item<float>()));
}

TEST_P(CrossEntropy, TheMeanOfNoRowIsNotANumber) {
  at::Tensor target = at::full({2}, ignored, at::kLong);
  auto [loss, total, sums] = crossEntropy(draw({2, 5}), target, mean, ignored);
  EXPECT_TRUE(std::isnan(loss.item<float>()));
  EXPECT_EQ(total.item<float>(), 0);
}

TEST(CrossEntropyErrors, OperandsThatDoNotFitAreRefused) {
  at::Tensor logits = at::randn({2, 5}), target = at::full({2}, 1, at::kLong);
  auto refuses = [&](const at::Tensor &logits, const at::Tensor &target,
                     int64_t reduction = mean) {
    EXPECT_THROW(crossEntropy(logits, target, reduction, ignored), c10::Error);
  };
  refuses(logits.to(at::kDouble), target);
  refuses(logits.t(), at::full({5}, 1, at::kLong));
  refuses(logits[0], target);
  refuses(logits, target.to(at::kInt));
  refuses(logits, at::full({3}, 1, at::kLong));
  refuses(logits, target, 0);
  refuses(logits, target + 4);
  refuses(logits, target - 2);
}
