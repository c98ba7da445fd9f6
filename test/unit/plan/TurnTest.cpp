// Tests that the turns of a step are one line of programs that train apart, or
// are refused.
#include "BrokenPlans.h"
#include "PlanBuilder.h"
#include "plan/ProgramOutputs.h"
#include "plan/check/LiveRanges.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;
namespace test = fsdp::test;

namespace {

/// Two turns, "a" and "b", each with a parameter of its own whose gradient is
/// said to be the sum of x; for batches of each of these sizes.
std::unique_ptr<test::PlanBuilder> turnsOf(std::vector<int64_t> sizes) {
  auto builder = std::make_unique<test::PlanBuilder>(1);
  test::PlanBuilder &b = *builder;
  unsigned w[] = {b.state("w", Role::Parameter, {4}),
                  b.state("v", Role::Parameter, {4})};
  unsigned sgd = addSgdRule(b);
  for (size_t i = 0; i < sizes.size(); ++i)
    for (size_t turn = 0; turn < 2; ++turn) {
      b.program(std::string(turn ? "turn" : "step") +
                (i ? "_" + std::to_string(i + 1) : ""));
      int x = b.newValue("x", {sizes[i], 4});
      b.input("x", x, true);
      int loss = b.newValue("loss", {}), gradient = b.newValue("gradient", {4});
      b.aten("aten::mean", {value(x)}, {loss});
      b.output("loss", loss);
      b.aten("aten::sum.dim_IntList", {value(x), integers({0})}, {gradient});
      b.update(sgd, w[turn], gradient);
      ProgramT &program = *b.plan.programs.back();
      program.turn = turn ? "b" : "a";
      program.next = turn ? -1 : static_cast<int>(b.plan.programs.size());
      program.variant_of = i ? static_cast<int>(turn) : -1;
    }
  return builder;
}

struct BrokenTurns : ::testing::TestWithParam<Break<PlanT>> {};

} // namespace

TEST(Turns, AreALineForEachShape) {
  auto builder = turnsOf({3, 2});
  PlanT &plan = builder->finish();
  EXPECT_EQ(check(plan), "");
  EXPECT_EQ(turnsFrom(plan, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(turnsFrom(plan, 2), (std::vector<int>{2, 3}));
}

TEST(Turns, NameWhatAStepGives) {
  auto builder = turnsOf({3});
  PlanT &plan = builder->finish();
  EXPECT_EQ(namesOfStep(plan, 0),
            (std::vector<std::string>{"loss", "loss.a", "loss.b"}));
  EXPECT_EQ(lossesOfStep(plan, 0),
            (std::vector<std::pair<std::string, size_t>>{{"a", 1}, {"b", 2}}));
}

TEST_P(BrokenTurns, AreRefused) {
  auto builder = turnsOf({3, 2});
  PlanT &plan = builder->finish();
  GetParam().apply(plan);
  for (auto &program : plan.programs)
    program->live_bytes = liveBytes(plan, *program);
  GetParam().expectRefused(plan);
}

static const Break<PlanT> breaks[] = {
    {"OfNoProgram", C1, [](PlanT &p) { p.programs[1]->next = 7; },
     "program 7 does not exist"},
    {"ACircle", C35, [](PlanT &p) { p.programs[1]->next = 0; },
     "program 'step': is a turn of two steps, or twice of one"},
    {"OfTwoSteps", C35, [](PlanT &p) { p.programs[0]->next = 3; },
     "program 'turn_2'"},
    {"Forgotten", C35,
     [](PlanT &p) { p.programs[0]->next = p.programs[2]->next = -1; },
     "program 'turn': is a turn that no step reaches"},
    {"ForgottenInAVariant", C35, [](PlanT &p) { p.programs[2]->next = -1; },
     "program 'step_2': has fewer turns than 'step'"},
    {"WithoutAName", C35,
     [](PlanT &p) { p.programs[1]->turn = p.programs[3]->turn = ""; },
     "program 'turn': is one of several turns, and has no name as one"},
    {"OfOneName", C35,
     [](PlanT &p) { p.programs[1]->turn = p.programs[3]->turn = "a"; },
     "program 'turn': is a second turn of 'a'"},
    {"OtherTurnOfAVariant", C35, [](PlanT &p) { p.programs[3]->turn = "c"; },
     "program 'turn_2': is no variant of the turn in its place of 'step'"},
    {"OtherInput", C35,
     [](PlanT &p) {
       p.programs[1]->inputs[0]->name = p.programs[3]->inputs[0]->name = "y";
     },
     "program 'turn': has other inputs than 'step', the first turn"},
    {"OneParameter", C35,
     [](PlanT &p) {
       for (int turn : {1, 3})
         for (auto &command : p.programs[turn]->commands)
           if (UpdateT *update = command->operation.AsUpdate())
             update->parameter = 0;
     },
     "program 'turn': updates 'w', as an earlier turn does"},
};
INSTANTIATE_TEST_SUITE_P(Turns, BrokenTurns, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
