// Tests that ranks wait for as long as the plan's own steps ask for.
#include "launch/Deadline.h"

#include "PlanBuilder.h"
#include "cost/CommandCost.h"
#include "trace/Predict.h"

#include <gtest/gtest.h>

using namespace fsdp;

TEST(Deadline, TenMinutesAreTheLeast) {
  EXPECT_EQ(deadlineOf(plan::PlanT()), std::chrono::minutes(10));
  auto quick = test::linearRegression(2, 4, 4, 4);
  EXPECT_EQ(deadlineOf(quick->finish()), std::chrono::minutes(10));
}

TEST(Deadline, LongStepsHaveMore) {
  auto slow = test::linearRegression(2, 1 << 15, 1 << 15, 1 << 15);
  const plan::PlanT &plan = slow->finish();
  auto runs = trace::predictStep(plan, cost::clusterOf(plan), 0);
  auto expected = std::chrono::nanoseconds(100 * runs.back().end);
  ASSERT_GT(expected, std::chrono::minutes(10));
  EXPECT_LT(std::chrono::abs(deadlineOf(plan) - expected),
            std::chrono::milliseconds(2));
}
