// Tests that programs for batches of several shapes differ in these alone, or
// are refused.
#include "BrokenPlans.h"
#include "PlanBuilder.h"
#include "plan/check/LiveRanges.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;
namespace test = fsdp::test;

namespace {

/// loss = mean(x * x), whose gradient is said to be the sum of x: of batches of
/// these sizes.
std::unique_ptr<test::PlanBuilder> stepsOf(std::vector<int64_t> sizes) {
  auto builder = std::make_unique<test::PlanBuilder>(1);
  test::PlanBuilder &b = *builder;
  unsigned w = b.state("w", Role::Parameter, {4});
  unsigned sgd = addSgdRule(b);
  for (size_t i = 0; i < sizes.size(); ++i) {
    b.program(i ? "step_" + std::to_string(i + 1) : "step");
    int x = b.newValue("x", {sizes[i], 4});
    b.input("x", x, true);
    int square = b.newValue("square", {sizes[i], 4});
    int loss = b.newValue("loss", {}), gradient = b.newValue("gradient", {4});
    b.aten("aten::mul.Tensor", {value(x), value(x)}, {square});
    b.aten("aten::mean", {value(square)}, {loss});
    b.output("loss", loss);
    b.aten("aten::sum.dim_IntList", {value(x), integers({0})}, {gradient});
    b.update(sgd, w, gradient);
    b.plan.programs[i]->variant_of = i ? 0 : -1;
  }
  return builder;
}

struct BrokenVariants : ::testing::TestWithParam<Break<PlanT>> {};

} // namespace

TEST(Variants, AreFoundBehindTheirProgram) {
  auto builder = stepsOf({3, 2, 5});
  PlanT &plan = builder->finish();
  EXPECT_EQ(check(plan), "");
  EXPECT_EQ(findVariants(plan, "step"), (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(findVariants(plan, "eval").empty());
}

TEST(Variants, OfOneShapeAreRefused) {
  EXPECT_NE(check(stepsOf({3, 2, 3})->finish())
                .find("C33: program 'step_3': has the shapes of another "
                      "variant of 'step'"),
            std::string::npos);
}

TEST_P(BrokenVariants, AreRefused) {
  auto builder = stepsOf({3, 2});
  PlanT &plan = builder->finish();
  GetParam().apply(plan);
  for (auto &program : plan.programs)
    program->live_bytes = liveBytes(plan, *program);
  GetParam().expectRefused(plan);
}

static const Break<PlanT> breaks[] = {
    {"OfNoProgram", C1, [](PlanT &p) { p.programs[1]->variant_of = 7; },
     "program 7 does not exist"},
    {"OfAVariant", C33, [](PlanT &p) { p.programs[1]->variant_of = 1; },
     "is a variant of 'step_2', which is one itself"},
    {"OtherInput", C33, [](PlanT &p) { p.programs[1]->inputs[0]->name = "y"; },
     "has other inputs than 'step'"},
    {"RepeatedInput", C33,
     [](PlanT &p) { p.programs[1]->inputs[0]->from_data = false; },
     "has other inputs than 'step'"},
    {"OtherOutput", C33,
     [](PlanT &p) {
       auto more = std::make_unique<OutputT>(*p.programs[1]->outputs[0]);
       more->name = "more";
       p.programs[1]->outputs.push_back(std::move(more));
     },
     "has other outputs than 'step'"},
    {"OtherParameters", C33,
     [](PlanT &p) { p.programs[1]->commands.pop_back(); },
     "updates other parameters than 'step'"},
};
INSTANTIATE_TEST_SUITE_P(Variants, BrokenVariants, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
