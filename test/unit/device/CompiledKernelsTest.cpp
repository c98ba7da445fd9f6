// Tests that this project's own kernels for GPUs compile, for which no GPU is
// needed.
#include "drivers/cuda/CompiledKernels.h"
#include "drivers/cuda/CrossEntropyKernels.h"

#include "Error.h"

#include <gtest/gtest.h>

using namespace fsdp;

class OnGpus : public testing::TestWithParam<int> {};

// From Turing to Blackwell.
INSTANTIATE_TEST_SUITE_P(CompiledKernels, OnGpus,
                         testing::Values(75, 80, 90, 120));

TEST_P(OnGpus, CrossEntropyCompiles) {
  std::string code =
      compileForGpu("cross_entropy", kCrossEntropyKernels, GetParam());
  for (const char *type : {"float32", "bfloat16", "float16"})
    for (const char *kernel : {"sums_", "loss_", "backward_"})
      EXPECT_NE(code.find(std::string(kernel) + type), std::string::npos)
          << kernel << type;
}

TEST(CompiledKernels, AnErrorHasTheCompilersMessage) {
  try {
    compileForGpu("nothing", "int f() { return x; }", 90);
    FAIL() << "it compiled";
  } catch (const Error &error) {
    std::string text = error.what();
    EXPECT_NE(text.find("cannot compile the kernels of nothing for GPUs of "
                        "compute capability 9.0"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("nothing.cu(1): error: identifier \"x\" is undefined"),
              std::string::npos)
        << text;
  }
}
