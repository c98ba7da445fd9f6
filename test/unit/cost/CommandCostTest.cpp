// Tests that a call costs what its kernel was measured to take.
#include "cost/CommandCost.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::cost;

namespace {

/// A product, and a view of what it gives.
struct Product {
  Product() {
    builder.program("step");
    int left = builder.newValue("left", {64, 32});
    int right = builder.newValue("right", {32, 16});
    int result = builder.newValue("result", {64, 16});
    int turned = builder.viewValue("turned", result, {16, 64}, {1, 16});
    builder.aten("aten::mm", {test::value(left), test::value(right)}, {result});
    builder.aten("aten::t", {test::value(result)}, {turned}, /*view=*/true);
  }

  plan::ProgramT &program() { return *builder.plan.programs.front(); }
  plan::AtenT &call(size_t command) {
    return *program().commands[command]->operation.AsAten();
  }
  double seconds(size_t command, const char *cluster) {
    return commandSeconds(builder.plan, program(), *program().commands[command],
                          findCluster(cluster));
  }

  test::PlanBuilder builder{2};
};

} // namespace

TEST(CommandCost, AProductIsEstimatedForACluster) {
  Product product;
  EXPECT_DOUBLE_EQ(product.seconds(0, "local"),
                   kernelSeconds(2. * 64 * 32 * 16,
                                 4. * (64 * 32 + 32 * 16 + 64 * 16),
                                 plan::DType::Float32, findCluster("local")));
}

TEST(CommandCost, AMeasuredProductHasItsTimeOnEveryCluster) {
  Product product;
  product.call(0).measured_seconds = 0.25;
  for (const char *cluster : {"local", "h100x8"})
    EXPECT_EQ(product.seconds(0, cluster), 0.25);
}

TEST(CommandCost, WhatTheFirstShardDoesNotRunCostsNothing) {
  Product product;
  product.call(0).measured_seconds = 0.25;
  product.call(0).on = std::make_unique<plan::ShardRange>(1, 2);
  EXPECT_EQ(product.seconds(0, "local"), 0);
}

TEST(CommandCost, AViewCostsNothing) {
  Product product;
  EXPECT_EQ(product.seconds(1, "local"), 0);
}
