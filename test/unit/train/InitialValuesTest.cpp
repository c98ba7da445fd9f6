// Tests that recipes give PyTorch's distributions, and each element the same
// value however a tensor is cut.
#include "state/InitialValues.h"

#include "TensorFunctions.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace fsdp;
using plan::InitKind;

namespace {

constexpr int64_t size = 200'000;

struct Recipe {
  plan::StateT state;

  explicit Recipe(plan::DType dtype = plan::DType::Float64) {
    state.dtype = dtype;
    state.shape = {size};
  }
  Recipe &step(InitKind kind, double a = 0, double b = 0, uint32_t draw = 0) {
    auto added = std::make_unique<plan::InitStepT>();
    added->kind = kind;
    added->a = a;
    added->b = b;
    added->draw = draw;
    state.init.push_back(std::move(added));
    return *this;
  }
  Recipe &of(uint64_t offset, std::vector<int64_t> sizes,
             std::vector<int64_t> strides) {
    auto region = std::make_unique<plan::RegionT>();
    region->offset = offset;
    region->sizes = std::move(sizes);
    region->strides = std::move(strides);
    state.init.back()->region = std::move(region);
    return *this;
  }
  template <typename T = double>
  std::vector<T> values(int64_t seed = 7, int64_t begin = 0,
                        int64_t count = size) const {
    std::vector<T> result(count);
    computeInitialValues(state, seed, begin, count, result.data());
    return result;
  }
};

/// Kolmogorov and Smirnov's distance of a sample from a distribution, scaled:
/// above 1.95 in one sample of a thousand.
double distance(std::vector<double> sample,
                const std::function<double(double)> &distribution) {
  std::sort(sample.begin(), sample.end());
  double largest = 0, n = sample.size();
  for (size_t i = 0; i < sample.size(); ++i) {
    double expected = distribution(sample[i]);
    largest = std::max({largest, std::abs(expected - i / n),
                        std::abs(expected - (i + 1) / n)});
  }
  return largest * std::sqrt(n);
}

double normalDistribution(double x) { return std::erfc(-x / std::sqrt(2)) / 2; }

double correlation(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum / a.size();
}

} // namespace

TEST(InitialValues, UniformIsUniform) {
  auto sample = Recipe().step(InitKind::Uniform, -0.5, 1.5).values();
  EXPECT_LT(distance(sample, [](double x) { return (x + 0.5) / 2; }), 1.95);
  EXPECT_GE(*std::min_element(sample.begin(), sample.end()), -0.5);
  EXPECT_LT(*std::max_element(sample.begin(), sample.end()), 1.5);
}

TEST(InitialValues, NormalIsNormal) {
  auto sample = Recipe().step(InitKind::Normal, 3, 0.02).values();
  EXPECT_LT(
      distance(sample,
               [](double x) { return normalDistribution((x - 3) / 0.02); }),
      1.95);
}

TEST(InitialValues, TruncatedNormalHasItsBounds) {
  // The steps of torch.nn.init.trunc_normal_(std=0.5, a=-1, b=1).
  double low = normalDistribution(-2);
  auto sample = Recipe()
                    .step(InitKind::Uniform, 2 * low - 1, 1 - 2 * low)
                    .step(InitKind::Erfinv)
                    .step(InitKind::Multiply, 0.5 * std::sqrt(2))
                    .step(InitKind::Add, 0)
                    .step(InitKind::Clamp, -1, 1)
                    .values();
  auto expected = [&](double x) {
    return (normalDistribution(x / 0.5) - low) / (1 - 2 * low);
  };
  EXPECT_LT(distance(sample, expected), 1.95);
  EXPECT_GE(*std::min_element(sample.begin(), sample.end()), -1);
  EXPECT_LE(*std::max_element(sample.begin(), sample.end()), 1);
}

TEST(InitialValues, DrawsSeedsAndNeighboursAreIndependent) {
  auto numbers = [](int64_t seed, uint32_t draw) {
    return Recipe().step(InitKind::Normal, 0, 1, draw).values(seed);
  };
  auto first = numbers(0, 0);
  auto shifted = first;
  std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
  double bound = 4 / std::sqrt(double(size));
  EXPECT_LT(std::abs(correlation(first, shifted)), bound);
  EXPECT_LT(std::abs(correlation(first, numbers(0, 1))), bound);
  EXPECT_LT(std::abs(correlation(first, numbers(1, 0))), bound);
  EXPECT_EQ(first, numbers(0, 0));
}

TEST(InitialValues, AnyCutHasTheSameBits) {
  Recipe recipe(plan::DType::Float32);
  recipe.step(InitKind::Normal, 0, 1, 5).step(InitKind::Multiply, 0.1);
  auto whole = recipe.values<float>();
  int64_t begin = 0;
  for (int64_t count : {1, 4095, 4097, 3, 100'000}) {
    auto part = recipe.values<float>(7, begin, count);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin));
    begin += count;
  }
}

TEST(InitialValues, ThreadsChangeNoBit) {
  auto recipe = Recipe().step(InitKind::Normal, 0, 1);
  int threads = at::get_num_threads();
  at::set_num_threads(3);
  auto three = recipe.values();
  at::set_num_threads(1);
  EXPECT_EQ(recipe.values(), three);
  at::set_num_threads(threads);
}

TEST(InitialValues, ARegionIsAView) {
  // An embedding [50, 4]: row 3 is filled, then every second column of rows
  // 10 to 12 through a transposed view, then the diagonal of the first rows.
  Recipe recipe(plan::DType::Float32);
  recipe.step(InitKind::Fill, 1);
  recipe.step(InitKind::Fill, 2).of(12, {4}, {1});
  recipe.step(InitKind::Multiply, 5).of(40, {2, 3}, {2, 4});
  recipe.step(InitKind::Add, 7).of(0, {4}, {5});
  recipe.step(InitKind::Fill, -1).of(199, {}, {});
  at::Tensor expected = at::ones({50, 4});
  expected.as_strided({4}, {1}, 12).fill_(2);
  expected.as_strided({2, 3}, {2, 4}, 40).mul_(5);
  expected.as_strided({4}, {5}, 0).add_(7);
  expected.as_strided({}, {}, 199).fill_(-1);
  auto values = recipe.values<float>(7, 0, 200);
  EXPECT_TRUE(at::equal(at::from_blob(values.data(), {50, 4}), expected));
}

TEST(InitialValues, EachDtypeIsRoundedOnce) {
  Recipe wide, narrow(plan::DType::BFloat16), whole(plan::DType::Int64);
  for (Recipe *recipe : {&wide, &narrow})
    recipe->step(InitKind::Normal, 0, 1);
  auto exact = wide.values();
  auto rounded = narrow.values<at::BFloat16>();
  for (int64_t i = 0; i < size; ++i)
    ASSERT_EQ(rounded[i], static_cast<at::BFloat16>(exact[i]));
  EXPECT_EQ(whole.step(InitKind::Fill, 3).values<int64_t>()[size - 1], 3);
}
