// Tests that a table of kernels is read as it was written, names the fastest
// kernel of a product, and is refused where it is of another machine; and that
// products which differ in shape, strides or family have different texts.
#include "cost/KernelTable.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::cost;

static Operand operand(std::vector<int64_t> shape,
                       std::vector<int64_t> strides = {},
                       plan::DType dtype = plan::DType::Float32) {
  if (strides.empty())
    strides = plan::rowMajorStrides(shape);
  return {dtype, std::move(shape), std::move(strides)};
}

static std::optional<Product>
productOf(std::string_view callee, const std::vector<Operand> &operands,
          const std::vector<std::optional<double>> &numbers = {}) {
  ProductArguments arguments;
  for (const Operand &operand : operands)
    arguments.add(operand);
  for (std::optional<double> number : numbers)
    arguments.add(number ? Numbers{{*number}} : std::nullopt);
  return arguments.productOf(callee);
}

static Product product() {
  return *productOf("mm", {operand({4, 8}), operand({8, 2}, {1, 8})});
}

template <typename Function> static std::string errorOf(Function function) {
  try {
    function();
  } catch (const Error &error) {
    return error.what();
  }
  return "no error";
}

TEST(Kernels, AProductIsOneForAllItsKernels) {
  EXPECT_EQ(product().text(), "mm float32 4x8 8x2@1,8");
  auto by = productOf("fsdp_mlir::mm.onednn_linear",
                      {operand({4, 8}), operand({8, 2}, {1, 8})});
  ASSERT_TRUE(by);
  EXPECT_EQ(by->text(), product().text());
}

TEST(Kernels, WhatOnlyAtenTakesIsNoProduct) {
  EXPECT_FALSE(productOf("relu", {operand({4, 8})}));
  EXPECT_FALSE(productOf("mm", {operand({0, 8}), operand({8, 2})}));
  auto doubles = operand({8, 8}, {}, plan::DType::Float64);
  EXPECT_FALSE(productOf("mm", {doubles, doubles}));
  std::vector<Operand> row = {operand({2}), operand({4, 8}), operand({8, 2})};
  EXPECT_TRUE(productOf("addmm", row));
  row[0] = operand({4, 2});
  EXPECT_FALSE(productOf("addmm", row));
  row[0] = operand({1}); // is broadcast
  EXPECT_FALSE(productOf("addmm", row));
  // Without an element, or with none of its dimensions.
  EXPECT_FALSE(productOf("mm", {operand({}), operand({})}));
  // A factor that the schema has behind the tensors.
  EXPECT_TRUE(productOf("bmm", {operand({2, 4, 8}), operand({2, 8, 2})}, {{}}));
  EXPECT_FALSE(productOf("mm", {operand({4, 8}), operand({8, 2})}, {2.0}));
}

TEST(Kernels, AttentionIsAProductWithoutDropoutAndMask) {
  const char *forward = "_scaled_dot_product_flash_attention_for_cpu";
  const char *backward = "_scaled_dot_product_flash_attention_for_cpu_backward";
  std::optional<double> none;
  Operand head = operand({2, 4, 16, 8});
  std::vector<Operand> three(3, head), six(5, head);
  auto causal = productOf(forward, three, {0.0, 1.0, none, 0.5});
  ASSERT_TRUE(causal);
  EXPECT_EQ(causal->text(), std::string(forward) +
                                " float32 2x4x16x8 2x4x16x8 2x4x16x8 "
                                "(0, 1, none, 0.5)");
  // Defaults behind the last number are not said.
  EXPECT_EQ(productOf(forward, three, {none, none, none, none})->text(),
            std::string(forward) + " float32 2x4x16x8 2x4x16x8 2x4x16x8");
  EXPECT_EQ(
      productOf("fsdp_mlir::attention.onednn_primitive", three, {})->text(),
      productOf(forward, three, {})->text());
  EXPECT_FALSE(productOf(forward, three, {0.1}));
  // The sum of exponentials is of float32 whatever the others are.
  for (Operand &half : six)
    half.dtype = plan::DType::BFloat16;
  six.push_back(operand({2, 4, 16}));
  EXPECT_TRUE(productOf(backward, six, {0.0, 1.0}));
  EXPECT_FALSE(productOf(backward, six, {0.5, 1.0}));
  // A mask is a tensor behind the numbers.
  ProductArguments masked;
  for (const Operand &given : three)
    masked.add(given);
  masked.add(Numbers{{0.0}});
  masked.add(operand({16, 16}));
  EXPECT_FALSE(masked.productOf(forward));
}

TEST(Kernels, AConvolutionIsAProductInTypesOf16Bits) {
  ProductArguments narrow, wide;
  for (auto [arguments, dtype] : {std::pair(&narrow, plan::DType::BFloat16),
                                  {&wide, plan::DType::Float32}}) {
    arguments->add(operand({2, 3, 8, 8}, {}, dtype));
    arguments->add(operand({4, 3, 1, 3}, {}, dtype));
    arguments->add(std::nullopt); // no bias
    arguments->add(Numbers{{1, 2}});
    arguments->add(Numbers{{0}});
    arguments->add(Numbers(std::in_place));
  }
  EXPECT_FALSE(wide.productOf("convolution"));
  ASSERT_TRUE(narrow.productOf("convolution"));
  EXPECT_EQ(narrow.productOf("convolution")->text(),
            "convolution bfloat16 2x3x8x8 4x3x1x3 (none, [1 2], 0, [])");
}

TEST(Kernels, AtensComesFirstInEachFamily) {
  for (const char *family :
       {"mm", "addmm", "bmm", "convolution", "convolution_backward",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward"}) {
    std::vector<const Kernel *> kernels = kernelsOf(family);
    ASSERT_GT(kernels.size(), 1u);
    EXPECT_TRUE(kernels[0]->exact);
    EXPECT_EQ(kernels[0]->callee, family);
  }
}

static KernelTable table(std::map<std::string, double> seconds) {
  return {{"a \"quoted\\ CPU", "2.11.0", 2}, {{product().text(), seconds}}};
}

TEST(KernelTable, IsReadAsItWasWritten) {
  KernelTable written = table({{"aten", 1.25e-3}, {"onednn", 7e-9}});
  KernelTable read = parseKernelTable(printKernelTable(written), "t");
  EXPECT_EQ(read.machine.cpu, written.machine.cpu);
  EXPECT_EQ(read.machine.pytorch, written.machine.pytorch);
  EXPECT_EQ(read.machine.threads, 2);
  EXPECT_EQ(read.products, written.products);
}

TEST(KernelTable, OtherBitsMustBeWorthIt) {
  auto fastest = [](std::map<std::string, double> seconds) {
    const Kernel *kernel = table(std::move(seconds)).fastest(product());
    return kernel ? std::string(kernel->name) : "none";
  };
  EXPECT_EQ(fastest({{"aten", 1.00}, {"onednn", 0.98}}), "aten");
  EXPECT_EQ(fastest({{"aten", 1.00}, {"onednn", 0.96}}), "onednn");
  EXPECT_EQ(fastest({{"aten", 1.0}, {"onednn", 0.6}, {"onednn_linear", 0.5}}),
            "onednn_linear");
  EXPECT_EQ(fastest({{"onednn", 1.00}}), "none");
  EXPECT_EQ(fastest({{"a kernel that is no more", 1e-9}, {"aten", 1}}), "aten");
}

TEST(KernelTable, AnotherMachinesIsRefusedByName) {
  KernelTable given = table({});
  EXPECT_EQ(errorOf([&] { checkMachine(given, given.machine, "t"); }),
            "no error");
  EXPECT_EQ(errorOf([&] {
              checkMachine(given, {"abacus", "2.11.0"}, "t");
            }),
            "kernel table \"t\" was measured on a \"quoted\\ CPU, and this is "
            "abacus; measure this one with fsdp-run --tune, into another file");
  auto refused = [&](Machine machine, const char *what) {
    machine.cpu = given.machine.cpu;
    std::string error = errorOf([&] { checkMachine(given, machine, "t"); });
    EXPECT_NE(error.find(what), std::string::npos) << error;
  };
  refused({"", "2.10.0", 2}, "on PyTorch 2.11.0, and this is PyTorch 2.10.0");
  refused({"", "2.11.0", 1}, "on 2 threads, and this is 1");
}

TEST(KernelTable, ErrorsSayWhatIsWrong) {
  std::string good = printKernelTable(table({{"aten", 0.5}}));
  auto broken = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return errorOf([&] { parseKernelTable(text, "t"); });
  };
  const std::string end = "; measure again with fsdp-run --tune";
  EXPECT_EQ(broken("format = 1", "format = 2"),
            "kernel table \"t\": has another format than this version's" + end);
  EXPECT_EQ(broken("threads = 2\n", ""),
            "kernel table \"t\": key \"threads\" is missing or no number" +
                end);
  EXPECT_EQ(broken("[products]", "[others]"),
            "kernel table \"t\": key \"products\" is missing or no table" +
                end);
  EXPECT_EQ(
      broken("5.000e-01", "-1.0"),
      "kernel table \"t\": the time of product \"mm float32 4x8 8x2@1,8\" "
      "by aten is no number of seconds above 0" +
          end);
  EXPECT_EQ(broken("format = 1", "format 1")
                .rfind("kernel table \"t\": line 3 is no TOML: ", 0),
            0u);
}

TEST(Machine, ACpuIsNamedWithItsFamily) {
  EXPECT_EQ(cpuName("processor\t: 0\nvendor_id\t: AuthenticAMD\n"
                    "cpu family\t: 25\nmodel\t\t: 17\n"
                    "model name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f\n\n"
                    "model name\t: another\n"),
            "AMD EPYC (family 25, model 17, avx512)");
  EXPECT_EQ(cpuName("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n"),
            "CPU 0x41 0xd40");
  EXPECT_FALSE(thisMachine().cpu.empty());
}
