// Tests that indices are compared with what they lead into, where the kernel
// does not.
#include "executor/IndexBounds.h"

#include "Error.h"
#include "TensorFunctions.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

using namespace fsdp;

static const c10::FunctionSchema &schemaOf(const char *name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").schema();
}

static std::string errorOf(const char *name, const torch::jit::Stack &stack) {
  const c10::FunctionSchema &schema = schemaOf(name);
  try {
    IndexBounds(schema).check(schema, stack, "call");
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

/// The backward of pooling [1, 2, 3, 4], with one index of its result.
static std::string poolingError(int64_t index) {
  at::Tensor gradOutput = at::ones({1, 2, 1, 1});
  at::Tensor indices = at::full({1, 2, 1, 1}, index, at::kLong);
  c10::List<int64_t> size({3, 4}), one({1, 1}), none({0, 0});
  return errorOf("aten::max_pool2d_with_indices_backward",
                 {gradOutput, at::ones({1, 2, 3, 4}), size, size, none, one,
                  false, indices});
}

static std::string lossError(at::Tensor target, int64_t ignored) {
  return errorOf("aten::nll_loss_backward",
                 {at::ones({}), at::ones({4, 10}), target, c10::IValue(),
                  int64_t(1), ignored, at::ones({})});
}

TEST(IndexBounds, HoldIndicesInsideThePlane) {
  EXPECT_EQ(poolingError(0), "");
  EXPECT_EQ(poolingError(11), "");
  EXPECT_EQ(poolingError(12), "call: 'indices' has the index 12, and may have "
                              "0 to 11; look at the data it comes from");
  EXPECT_NE(poolingError(-1).find("has the index -1"), std::string::npos);
}

TEST(IndexBounds, LeaveOutWhatALossIgnores) {
  at::Tensor target = at::full({4}, int64_t(9), at::kLong);
  EXPECT_EQ(lossError(target, -100), "");
  target[2] = -100;
  EXPECT_EQ(lossError(target, -100), "");
  EXPECT_NE(lossError(target, -1).find("has the index -100"),
            std::string::npos);
}

TEST(IndexBounds, AreForSomeOperatorsAlone) {
  EXPECT_TRUE(IndexBounds(schemaOf("aten::embedding_dense_backward")).empty());
  EXPECT_FALSE(IndexBounds(schemaOf("aten::nll_loss2d_backward")).empty());
}
