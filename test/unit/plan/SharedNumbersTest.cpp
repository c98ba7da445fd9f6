// Tests the rules of numbers that are one for all: the norm of all ranks'
// gradients, and what scales updates and decides on them.
#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Two ranks train two vectors, each with a gradient of its own, scaled by the
/// p-norm of all.
class ClippedStep : public fsdp::test::PlanBuilder {
public:
  explicit ClippedStep(double p) : fsdp::test::PlanBuilder(2) {
    unsigned rule = addSgdRule(*this);
    unsigned a = state("a", Role::Parameter, {16}, /*sharded=*/true);
    unsigned b = state("b", Role::Parameter, {16}, /*sharded=*/true);
    program("step");
    int ofA = gradient("of a"), ofB = gradient("of b");
    int own = newValue("own", {}, DType::Float64);
    members =
        aten("fsdp_mlir::power_sum", {values({ofA, ofB}), number(p)}, {own})
            .arguments[0]
            .get();
    int norm = newValue("norm", {}, DType::Float64);
    collective(CollectiveKind::AllReduce, own, norm, 1);
    sum = plan.programs[0]->commands.back()->operation.AsCollective();
    sum->dtype = DType::Float64;
    sum->op = std::isinf(p) ? ReduceOp::Max : ReduceOp::Sum;
    factor = newValue("factor", {});
    aten("aten::_to_copy", {value(norm), byDefault()}, {factor});
    other = newValue("other", {});
    aten("aten::neg", {value(factor)}, {other});
    for (auto [parameter, of] : {std::pair(a, ofA), std::pair(b, ofB)}) {
      update(rule, parameter, of);
      updates.push_back(
          plan.programs[0]->commands.back()->operation.AsUpdate());
      updates.back()->scale = updates.back()->skip = factor;
    }
    output("loss", other);
  }

  CollectiveT *sum;
  ArgumentT *members;
  std::vector<UpdateT *> updates;
  int factor, other;

private:
  int gradient(const std::string &name) {
    int v = newValue(name, {8});
    aten("aten::ones", {integers({8})}, {v});
    return v;
  }
};

struct BrokenNumbers : ::testing::TestWithParam<Break<ClippedStep>> {};

} // namespace

TEST(SharedNumbers, AreTheSumOrTheLargestOfAllRanks) {
  for (double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
    ClippedStep step(p);
    EXPECT_EQ(check(step.finish()), "");
    step.sum->op =
        step.sum->op == ReduceOp::Sum ? ReduceOp::Max : ReduceOp::Sum;
    EXPECT_NE(check(step.plan).find("on each rank"), std::string::npos);
  }
}

TEST_P(BrokenNumbers, IsRefused) {
  ClippedStep step(2);
  GetParam().apply(step);
  GetParam().expectRefused(step.finish());
}

static const Break<ClippedStep> breaks[] = {
    {"DividedNorm", C14, [](ClippedStep &s) { s.sum->divisor = 2; },
     "divides by 2, not 1"},
    {"OneIsNotScaled", C26, [](ClippedStep &s) { s.updates[1]->scale = -1; },
     "updates 'b' by another scale"},
    {"OneIsScaledOtherwise", C26,
     [](ClippedStep &s) { s.updates[0]->scale = s.other; },
     "updates 'b' by another scale"},
    {"OneIsNotUpdated", C26,
     [](ClippedStep &s) {
       auto &commands = s.plan.programs[0]->commands;
       commands.pop_back();
     },
     "its norm is not of the gradients that update parameters"},
    {"OneIsNotInTheNorm", C26,
     [](ClippedStep &s) { s.members->values.pop_back(); },
     "its norm is not of the gradients that update parameters"},
    {"OneIsNeverSkipped", C26, [](ClippedStep &s) { s.updates[0]->skip = -1; },
     "on another condition"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenNumbers, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
