// Tests that a plan runs with the PyTorch that its step was captured with.
#include "operators/RunnablePlan.h"

#include <gtest/gtest.h>

using namespace fsdp;

TEST(RunnablePlan, IsForThisPyTorch) {
  plan::PlanT plan;
  EXPECT_NO_THROW(requireOwnTorch(plan)); // never captured
  plan.torch_version = FSDP_TORCH;
  EXPECT_NO_THROW(requireOwnTorch(plan));
  plan.torch_version = "1.13.0";
  try {
    requireOwnTorch(plan);
    FAIL();
  } catch (const plan::PlanError &error) {
    EXPECT_EQ(error.kind, E::PlanVersion);
    EXPECT_NE(std::string(error.what())
                  .find("is for PyTorch 1.13.0, and this program runs with"),
              std::string::npos);
  }
}
