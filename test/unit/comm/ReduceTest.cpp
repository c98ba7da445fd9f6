// Tests that sums in rank order with one division have PyTorch's bits.
#include "comm/Reduce.h"

#include "TensorFunctions.h"
#include "comm/ReducedPrecision.h"

#include <gtest/gtest.h>

using namespace fsdp;

namespace {

const std::pair<plan::DType, at::ScalarType> floating[] = {
    {plan::DType::Float16, at::kHalf},
    {plan::DType::BFloat16, at::kBFloat16},
    {plan::DType::Float32, at::kFloat},
    {plan::DType::Float64, at::kDouble}};

/// Numbers of all sizes, with zeros, denormals, infinities and no-numbers.
at::Tensor numbers(int salt, int64_t count, at::ScalarType type) {
  at::Tensor n = at::arange(count, at::kDouble);
  at::Tensor t = at::sin(n * (salt + 1.3)) *
                 at::pow(10.0, at::remainder(n * 7 + salt, 90) - 45);
  const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 65504};
  for (int64_t i = 0; i < 7 && i < count; ++i)
    t[(i * 13 + salt) % count] = special[i];
  return t.to(type).contiguous();
}

bool sameBits(const at::Tensor &a, const at::Tensor &b) {
  at::Tensor numberA = at::where(at::isnan(a), at::zeros_like(a), a);
  at::Tensor numberB = at::where(at::isnan(b), at::zeros_like(b), b);
  return at::equal(at::isnan(a), at::isnan(b)) &&
         std::memcmp(numberA.const_data_ptr(), numberB.const_data_ptr(),
                     a.nbytes()) == 0;
}

} // namespace

TEST(Reduce, SumsInOrderAndDividesAsPyTorch) {
  for (auto [dtype, type] : floating)
    for (int64_t count : {1, 7, 4099}) {
      std::vector<at::Tensor> tensors;
      std::vector<const void *> from;
      at::Tensor sum;
      for (int s = 0; s < 5; ++s) {
        tensors.push_back(numbers(s, count, type));
        from.push_back(tensors.back().const_data_ptr());
        sum = s == 0 ? tensors[0] : at::add(sum, tensors[s]);
        for (double divisor : {1.0, 2.0, 3.0, 4.0, 7.0, 0.1, 1e-5}) {
          at::Tensor expected = divisor == 1 ? sum : at::div(sum, divisor);
          at::Tensor one = at::empty_like(sum), other = at::empty_like(sum);
          combine(from, {one.data_ptr(), other.data_ptr()}, count, dtype,
                  divisor);
          EXPECT_TRUE(sameBits(one, expected))
              << at::toString(type) << " / " << divisor;
          EXPECT_TRUE(sameBits(other, expected));
          // In place.
          at::Tensor mine = tensors[s].clone();
          std::vector<const void *> sources = from;
          sources.back() = mine.const_data_ptr();
          combine(sources, {mine.data_ptr()}, count, dtype, divisor);
          EXPECT_TRUE(sameBits(mine, expected));
        }
      }
    }
}

TEST(Reduce, TheLargestIsPyTorchsWithNanAboveAll) {
  for (auto [dtype, type] : floating) {
    at::Tensor a = numbers(1, 4099, type), b = numbers(2, 4099, type);
    at::Tensor c = numbers(3, 4099, type), actual = at::empty_like(a);
    combine({a.const_data_ptr(), b.const_data_ptr(), c.const_data_ptr()},
            {actual.data_ptr()}, 4099, dtype, 1, plan::ReduceOp::Max);
    at::Tensor expected = at::maximum(at::maximum(a, b), c);
    EXPECT_TRUE(at::equal(at::isnan(actual), at::isnan(expected)));
    EXPECT_TRUE(at::equal(at::nan_to_num(actual), at::nan_to_num(expected)));
  }
  int32_t a = -3, b = -2, largest = 0;
  combine({&a, &b}, {&largest}, 1, plan::DType::Int32, 1, plan::ReduceOp::Max);
  EXPECT_EQ(largest, -2);
}

template <typename T> static void expectC10sConversions() {
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) {
    T x(static_cast<uint16_t>(bits), T::from_bits());
    float expected = x, actual = Number<T>::widen(x);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(actual)) << bits;
    else
      ASSERT_EQ(floatBits(actual), floatBits(expected)) << bits;
  }
  // Floats of every exponent; and between each two neighbours of T the middle,
  // and the floats beside it.
  auto check = [](uint32_t bits) {
    float x = floatOf(bits);
    T expected(x), actual = Number<T>::narrow(x);
    if (std::isnan(x))
      ASSERT_TRUE(std::isnan(static_cast<float>(actual))) << bits;
    else
      ASSERT_EQ(actual.x, expected.x) << bits;
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099)
    check(static_cast<uint32_t>(bits));
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 1 << 12)
    for (int near : {-1, 0, 1})
      check(static_cast<uint32_t>(bits + near));
}

TEST(ReducedPrecision, ConvertsAsC10) {
  expectC10sConversions<c10::Half>();
  expectC10sConversions<c10::BFloat16>();
}

TEST(Reduce, IntegersWrap) {
  at::Tensor a = at::full({300}, 200, at::kByte), b = a.clone();
  at::Tensor sum = at::add(a, b), actual = at::empty_like(a);
  combine({a.const_data_ptr(), b.const_data_ptr()}, {actual.data_ptr()}, 300,
          plan::DType::UInt8, 1);
  EXPECT_TRUE(at::equal(actual, sum));
}

TEST(Reduce, WhatCannotBeReducedIsRefused) {
  EXPECT_THROW(checkReduction(plan::DType::Bool, 1), Error);
  EXPECT_THROW(checkReduction(plan::DType::Float8E5M2, 1), Error);
  EXPECT_THROW(checkReduction(plan::DType::Int64, 2), Error);
  EXPECT_NO_THROW(checkReduction(plan::DType::BFloat16, 2));
  constexpr auto max = plan::ReduceOp::Max;
  EXPECT_THROW(checkReduction(plan::DType::Float32, 2, max), Error);
  EXPECT_THROW(checkReduction(plan::DType::Complex64, 1, max), Error);
}
