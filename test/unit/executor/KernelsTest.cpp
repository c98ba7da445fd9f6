// Tests that every kernel of a matrix product computes what ATen's does, for
// operands that lie in memory in any way, and that all are measured.
#include "TensorFunctions.h"
#include "cost/KernelTable.h"
#include "operators/MeasureKernels.h"
#include "operators/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

using namespace fsdp;

/// [.., rows, columns] of numbers that are all different.
static at::Tensor matrix(std::vector<int64_t> shape, double scale) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return at::sin(at::arange(count, at::kFloat) * scale).view(shape);
}

static at::Tensor call(std::string_view callee,
                       const std::vector<at::Tensor> &operands) {
  std::string name(callee), overload;
  if (name.find("::") == std::string::npos)
    name.insert(0, "aten::");
  if (size_t dot = name.find('.'); dot != std::string::npos) {
    overload = name.substr(dot + 1);
    name.resize(dot);
  }
  registerOperators();
  auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
      name.c_str(), overload.c_str());
  torch::jit::Stack stack(operands.begin(), operands.end());
  for (size_t i = operands.size(); i < handle.schema().arguments().size(); ++i)
    stack.push_back(*handle.schema().arguments()[i].default_value());
  handle.callBoxed(&stack);
  return stack.front().toTensor();
}

/// Whether the kernel is for operands of the type. oneDNN's matmul, as PyTorch
/// calls it, wants AVX-512, and so do its products of types of 16 bits, of
/// halves the part of it that computes with them.
static bool runsHere(const cost::Kernel &kernel, at::ScalarType type) {
  bool isWide = type == at::kFloat;
  bool hasAvx512 = cost::thisMachine().cpu.find("avx512") != std::string::npos;
  if (kernel.name == "float32")
    return !isWide;
  if (kernel.name == "onednn_primitive")
    return isWide || (type == at::kHalf ? __builtin_cpu_supports("avx512fp16")
                                        : hasAvx512);
  if (kernel.name == "onednn")
    return isWide && hasAvx512;
  return isWide || kernel.name == "aten";
}

static void compareKernels(const std::string &family,
                           const std::vector<at::Tensor> &operands) {
  at::Tensor expected = call(family, operands);
  at::ScalarType type = expected.scalar_type();
  bool isWide = type == at::kFloat;
  for (const cost::Kernel *kernel : cost::kernelsOf(family)) {
    if (!runsHere(*kernel, type)) {
      EXPECT_THROW(call(kernel->callee, operands), c10::Error)
          << kernel->callee;
      continue;
    }
    at::Tensor given = call(kernel->callee, operands);
    ASSERT_EQ(given.sizes(), expected.sizes()) << kernel->callee;
    // The type that the plan has.
    EXPECT_EQ(given.scalar_type(), type) << kernel->callee;
    EXPECT_TRUE(given.is_contiguous()) << kernel->callee;
    EXPECT_TRUE(at::allclose(given.to(at::kFloat), expected.to(at::kFloat),
                             isWide ? 1e-5 : 1e-2, isWide ? 1e-4 : 1e-2))
        << kernel->callee;
  }
}

TEST(Kernels, AllComputeTheSame) {
  at::Tensor a = matrix({24, 40}, 0.7), b = matrix({40, 56}, 1.3);
  at::Tensor bias = matrix({56}, 2.1);
  std::vector<at::Tensor> lefts = {a, a.t().contiguous().t(),
                                   matrix({24, 64}, 0.3).narrow(1, 8, 40)};
  std::vector<at::Tensor> rights = {b, b.t().contiguous().t(),
                                    matrix({40, 64}, 0.9).narrow(1, 3, 56)};
  for (const at::Tensor &left : lefts)
    for (const at::Tensor &right : rights) {
      compareKernels("mm", {left, right});
      compareKernels("addmm", {bias, left, right});
      compareKernels("bmm", {at::stack({left, left}), at::stack({right, b})});
    }
  // One row, one column.
  compareKernels("mm", {matrix({1, 40}, 0.2), b});
  compareKernels("mm", {a, matrix({40, 1}, 0.4)});
  compareKernels(
      "bmm", {matrix({3, 8, 5}, 0.4).transpose(1, 2), matrix({3, 8, 2}, 0.6)});
}

TEST(Kernels, OperandsOfNoProductAreRefused) {
  at::Tensor a = matrix({24, 40}, 0.7), bias = matrix({24}, 2.1);
  EXPECT_THROW(mmOneDnnPrimitive(a, a), c10::Error);
  EXPECT_THROW(mmOneDnnPrimitive(a.flatten(), a), c10::Error);
  EXPECT_THROW(bmmOneDnnPrimitive(a, a.t()), c10::Error);
  EXPECT_THROW(addmmOneDnnPrimitive(bias.narrow(0, 0, 1), a, a.t()),
               c10::Error);
}

/// A product that was kept without a bias is not taken for it, nor the reverse.
TEST(Kernels, ABiasMayBeOneNumberForAll) {
  at::Tensor a = matrix({24, 48}, 0.7), b = matrix({48, 56}, 1.3),
             bias = matrix({1}, 2.1).expand({56});
  for (int call = 0; call < 2; ++call) {
    EXPECT_TRUE(
        at::allclose(mmOneDnnPrimitive(a, b), at::mm(a, b), 1e-5, 1e-4));
    compareKernels("addmm", {bias, a, b});
  }
}

TEST(Kernels, OneDnnsAreForFloats) {
  at::Tensor a = matrix({8, 8}, 0.7).to(at::kDouble);
  for (auto kernel : {mmOneDnn, mmOneDnnLinear, mmOneDnnPrimitive})
    EXPECT_THROW(kernel(a, a), c10::Error);
}

TEST(Kernels, SomeAreForTypesOf16Bits) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    auto narrow = [&](std::vector<int64_t> shape, double scale) {
      return matrix(shape, scale).to(type);
    };
    at::Tensor a = narrow({24, 40}, 0.7), b = narrow({56, 40}, 1.3).t(),
               bias = narrow({56}, 2.1);
    for (int call = 0; call < 2; ++call) { // made, and kept
      compareKernels("mm", {a, b});
      compareKernels("addmm", {bias, a, b});
      compareKernels("bmm", {at::stack({a, a}), at::stack({b, b})});
    }
    EXPECT_THROW(mmWidened(a, b.to(at::kFloat)), c10::Error);
  }
}

TEST(Kernels, ConvolutionsOf16BitsAreAtens) {
  using List = std::vector<int64_t>;
  List one{1, 1}, none{0, 0};
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    at::Tensor input = matrix({2, 4, 6, 6}, 0.7).to(type),
               weight = matrix({8, 2, 3, 3}, 1.3).to(type),
               bias = matrix({8}, 2.1).to(type),
               gradient = matrix({2, 8, 6, 6}, 0.3).to(type);
    auto near = [&](const at::Tensor &given, const at::Tensor &expected) {
      EXPECT_EQ(given.scalar_type(), type);
      EXPECT_EQ(given.strides(), expected.strides());
      EXPECT_TRUE(at::allclose(given.to(at::kFloat), expected.to(at::kFloat),
                               1e-2, 1e-1));
    };
    for (const auto &given : {std::optional(bias), {}})
      near(
          convolutionWidened(input, weight, given, one, one, one, false, none,
                             2),
          at::convolution(input, weight, given, one, one, one, false, none, 2));
    auto compute = [&](auto kernel, bool ofInput) {
      return kernel(gradient, input, weight, List{8}, one, one, one, false,
                    none, 2, std::array<bool, 3>{ofInput, true, true});
    };
    auto aten = [](auto... arguments) {
      return at::convolution_backward(arguments...);
    };
    auto [gradInput, gradWeight, gradBias] =
        compute(convolutionBackwardWidened, true);
    auto [ofInput, ofWeight, ofBias] = compute(aten, true);
    near(gradInput, ofInput);
    near(gradWeight, ofWeight);
    near(gradBias, ofBias);
    EXPECT_FALSE(
        std::get<0>(compute(convolutionBackwardWidened, false)).defined());
    EXPECT_THROW(convolutionWidened(input.to(at::kFloat), weight, {}, one, one,
                                    one, false, none, 2),
                 c10::Error);
  }
}

TEST(Kernels, ConvolutionsAreMeasured) {
  cost::ProductArguments arguments;
  auto add = [&](const std::vector<int64_t> &shape) {
    arguments.add({plan::DType::BFloat16, shape, plan::rowMajorStrides(shape)});
  };
  add({2, 8, 6, 6});
  add({2, 4, 6, 6});
  add({8, 4, 3, 3});
  using cost::Numbers;
  for (Numbers numbers :
       {Numbers(), Numbers{{1, 1}}, Numbers{{1, 1}}, Numbers{{1, 1}},
        Numbers{{0}}, Numbers{{0, 0}}, Numbers{{1}}, Numbers{{1, 1, 0}}})
    arguments.add(std::move(numbers));
  auto seconds = measureKernels(*arguments.productOf("convolution_backward"));
  EXPECT_EQ(seconds.size(), 2u);
}

TEST(Kernels, EachIsMeasured) {
  cost::ProductArguments arguments;
  arguments.add({plan::DType::Float32, {24}, {1}});
  arguments.add({plan::DType::Float32, {16, 8}, {8, 1}});
  arguments.add({plan::DType::Float32, {8, 24}, {1, 8}});
  auto seconds = measureKernels(*arguments.productOf("addmm"));
  for (const cost::Kernel *kernel : cost::kernelsOf("addmm"))
    EXPECT_EQ(seconds.count(std::string(kernel->name)),
              runsHere(*kernel, at::kFloat));
  for (const auto &[kernel, least] : seconds)
    EXPECT_GT(least, 0) << kernel;
}
