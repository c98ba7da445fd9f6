// Tests that attention by other kernels gives what PyTorch's flash attention
// for CPUs gives, results and gradients, wherever its operands lie in memory,
// and that it refuses what it does not compute.
#include "cost/KernelTable.h"
#include "operators/MeasureKernels.h"
#include "operators/Operators.h"

#include "TensorFunctions.h"
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <gtest/gtest.h>

using namespace fsdp;

/// [batch, heads, length, size] of numbers that are all different; heads of one
/// place lie together, as a model's projections give them.
static at::Tensor heads(int64_t length, double scale,
                        at::ScalarType type = at::kFloat) {
  at::Tensor flat = at::sin(at::arange(2 * length * 3 * 8, at::kFloat) * scale);
  return flat.view({2, length, 3, 8}).transpose(1, 2).to(type);
}

struct Attention {
  at::Tensor query, key, value, gradient;
  bool isCausal = false;
  std::optional<double> scale;
  decltype(&attentionOneDnnPrimitive) forward = attentionOneDnnPrimitive;
  decltype(&attentionBackwardOneDnnPrimitive) backward =
      attentionBackwardOneDnnPrimitive;

  Attention(int64_t queries, int64_t keys, at::ScalarType type = at::kFloat)
      : query(heads(queries, 0.7, type)), key(heads(keys, 1.3, type)),
        value(heads(keys, 2.1, type)), gradient(heads(queries, 0.3, type)) {}

  void compare(double tolerance) const {
    auto [output, logsumexp] =
        forward(query, key, value, 0, isCausal, std::nullopt, scale);
    auto [expectedOutput, expectedLogsumexp] =
        at::_scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0, isCausal, std::nullopt, scale);
    expectEqual(output, expectedOutput, tolerance);
    expectEqual(logsumexp, expectedLogsumexp, 1e-4);
    auto given = backward(gradient, query, key, value, expectedOutput,
                          expectedLogsumexp, 0, isCausal, std::nullopt, scale);
    auto expected = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, query, key, value, expectedOutput, expectedLogsumexp, 0,
        isCausal, std::nullopt, scale);
    expectEqual(std::get<0>(given), std::get<0>(expected), tolerance);
    expectEqual(std::get<1>(given), std::get<1>(expected), tolerance);
    expectEqual(std::get<2>(given), std::get<2>(expected), tolerance);
  }

private:
  /// `tolerance`: of the largest magnitude, or of 1.
  static void expectEqual(const at::Tensor &given, const at::Tensor &expected,
                          double tolerance) {
    ASSERT_EQ(given.sizes(), expected.sizes());
    EXPECT_EQ(given.strides(), expected.strides()); // the plan's type has them
    EXPECT_EQ(given.scalar_type(), expected.scalar_type());
    at::Tensor exact = expected.to(at::kFloat);
    double error = (given.to(at::kFloat) - exact).abs().max().item<float>();
    EXPECT_LE(error,
              tolerance * std::max(1.f, exact.abs().max().item<float>()));
  }
};

TEST(AttentionKernels, AreAtens) {
  for (auto [queries, keys] : {std::pair(16, 16), {33, 70}, {70, 33}, {1, 5}})
    for (bool isCausal : {false, true}) {
      SCOPED_TRACE(std::to_string(queries) + " x " + std::to_string(keys));
      Attention attention(queries, keys);
      attention.isCausal = isCausal;
      attention.compare(1e-5);
      attention.scale = 0.125;
      attention.compare(1e-5);
    }
}

TEST(AttentionKernels, OperandsLieInAnyWay) {
  Attention attention(40, 24);
  attention.key = attention.key.contiguous();
  attention.gradient = attention.gradient.contiguous();
  attention.value = // rows of what three projections have in one
      heads(72, 0.9).contiguous().view({2, 3, 24, 24}).narrow(3, 8, 8);
  attention.compare(1e-5);
}

TEST(AttentionKernels, ScoresMayBeLarge) {
  Attention attention(32, 32);
  attention.scale = 50; // exponentials alone would be infinite
  attention.compare(1e-2);
}

TEST(AttentionKernels, NaNsStay) {
  Attention attention(16, 16);
  attention.query = attention.query.clone();
  attention.query.select(2, 3).fill_(std::nan(""));
  at::Tensor output = std::get<0>(attentionOneDnnPrimitive(
      attention.query, attention.key, attention.value, 0, false, {}, {}));
  EXPECT_TRUE(output.select(2, 3).isnan().all().item<bool>());
  EXPECT_FALSE(output.select(2, 4).isnan().any().item<bool>());
}

TEST(AttentionKernels, TakeBFloat16) {
  if (cost::thisMachine().cpu.find("avx512") == std::string::npos)
    GTEST_SKIP() << "oneDNN has no such product for this processor";
  Attention attention(33, 70, at::kBFloat16);
  attention.compare(2e-2);
  attention.isCausal = true;
  attention.compare(2e-2);
}

TEST(AttentionKernels, Float32sStandInForTypesOf16Bits) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    Attention attention(33, 70, type);
    attention.forward = attentionWidened;
    attention.backward = attentionBackwardWidened;
    attention.compare(2e-2);
    attention.isCausal = true;
    attention.compare(2e-2);
  }
}

TEST(AttentionKernels, RefuseWhatTheyDoNotCompute) {
  Attention oneDnn(16, 16), widened(16, 16, at::kBFloat16);
  widened.forward = attentionWidened;
  widened.backward = attentionBackwardWidened;
  for (const Attention &a : {oneDnn, widened}) {
    auto refuses = [&](const at::Tensor &key, double dropout,
                       std::optional<at::Tensor> mask) {
      EXPECT_THROW(a.forward(a.query, key, a.value, dropout, false, mask, {}),
                   c10::Error);
    };
    refuses(a.key, 0.1, {});
    refuses(a.key, 0, at::zeros({16, 16}));
    refuses(a.key.narrow(1, 0, 2), 0, {});
    refuses(a.key.flatten(), 0, {});
    refuses(a.key.to(at::kDouble), 0, {});
    at::Tensor logsumexp = at::zeros({2, 3, 16});
    EXPECT_THROW(a.backward(a.gradient, a.query, a.key, a.value,
                            a.query.narrow(2, 0, 8), logsumexp, 0, false, {},
                            {}),
                 c10::Error);
  }
}

TEST(AttentionKernels, AreMeasured) {
  cost::Operand head{plan::DType::Float32, {1, 2, 16, 8}, {256, 128, 8, 1}};
  cost::ProductArguments arguments;
  for (int i = 0; i < 5; ++i)
    arguments.add(head);
  arguments.add({plan::DType::Float32, {1, 2, 16}, {32, 16, 1}});
  for (double number : {0.0, 1.0})
    arguments.add(cost::Numbers{{number}});
  auto seconds = measureKernels(*arguments.productOf(
      "_scaled_dot_product_flash_attention_for_cpu_backward"));
  EXPECT_EQ(seconds.size(), 2u);
}
