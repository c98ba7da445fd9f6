// Tests that a plan of several micro-batches adds each gradient once and begins
// the next step with nothing, or is refused.
#include "BrokenPlans.h"
#include "PlanBuilder.h"
#include "plan/check/LiveRanges.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;
namespace test = fsdp::test;

namespace {

/// state + value.
unsigned addAccumulationRule(test::PlanBuilder &b) {
  auto rule = std::make_unique<RuleT>();
  rule->name = "fsdp.accumulate.f32";
  rule->operands = 2;
  rule->dtypes = std::vector<DType>(3, DType::Float32);
  auto call = std::make_unique<AtenT>();
  call->name = "aten::add";
  call->overload = "Tensor";
  for (const ArgumentT &argument : {value(0), value(1)})
    call->arguments.push_back(std::make_unique<ArgumentT>(argument));
  call->results = {2};
  rule->calls.push_back(std::move(call));
  rule->results = {2};
  b.plan.rules.push_back(std::move(rule));
  return b.plan.rules.size() - 1;
}

/// Two micro-batches of loss = mean(x * x), whose gradient is said to be x;
/// what the first one gives may be the sum over all ranks of a role.
std::unique_ptr<test::PlanBuilder>
twoMicroBatches(std::optional<AxisRole> sumsOver = {}) {
  auto builder = std::make_unique<test::PlanBuilder>(1);
  test::PlanBuilder &b = *builder;
  b.plan.micro_batches = 2;
  if (sumsOver == AxisRole::Replicate) {
    auto replicas = std::make_unique<MeshDimT>();
    replicas->name = "replicate";
    replicas->size = 1;
    replicas->role = AxisRole::Replicate;
    b.plan.mesh.insert(b.plan.mesh.begin(), std::move(replicas));
  }
  unsigned w = b.state("w", Role::Parameter, {4});
  unsigned g = b.state("w/grad", Role::Gradient, {4});
  b.plan.states[g]->parameter = w;
  unsigned sgd = addSgdRule(b), accumulate = addAccumulationRule(b);
  for (const char *name : {"step", "accumulate"}) {
    b.program(name);
    int x = b.newValue("x", {4});
    b.input("x", x, true);
    int square = b.newValue("square", {4}), loss = b.newValue("loss", {});
    b.aten("aten::mul.Tensor", {value(x), value(x)}, {square});
    b.aten("aten::mean", {value(square)}, {loss});
    b.output("loss", loss);
    if (std::string(name) == "accumulate") {
      if (sumsOver) {
        int all = b.newValue("all", {4});
        b.collective(CollectiveKind::AllReduce, x, all, 4);
        x = all;
      }
      b.update(accumulate, g, x);
      continue;
    }
    int sum = b.newValue("sum", {4});
    b.aten("aten::add.Tensor", {value(b.stateValue(g)), value(x)}, {sum});
    b.aten("aten::full_like", {value(sum), number(-0.0)}, {b.stateValue(g)});
    b.update(sgd, w, sum);
  }
  return builder;
}

std::vector<std::unique_ptr<CommandT>> &commands(PlanT &plan, int program) {
  return plan.programs[program]->commands;
}

struct BrokenMicroBatches : ::testing::TestWithParam<Break<PlanT>> {};

} // namespace

TEST(MicroBatchChecker, PassesAValidPlan) {
  EXPECT_EQ(check(twoMicroBatches()->finish()), "");
}

TEST(MicroBatchChecker, LeavesSumsOverReplicasToTheLast) {
  EXPECT_EQ(check(twoMicroBatches(AxisRole::Shard)->finish()), "");
  EXPECT_NE(
      check(twoMicroBatches(AxisRole::Replicate)->finish())
          .find("sums over replicas, which only the last micro-batch may"),
      std::string::npos);
}

TEST_P(BrokenMicroBatches, IsRefused) {
  auto builder = twoMicroBatches();
  PlanT &plan = builder->finish();
  GetParam().apply(plan);
  for (auto &program : plan.programs)
    program->live_bytes = liveBytes(plan, *program);
  GetParam().expectRefused(plan);
}

static const Break<PlanT> breaks[] = {
    {"NoMicroBatches", C27, [](PlanT &p) { p.micro_batches = 0; },
     "a step has none"},
    {"OneMicroBatch", C27, [](PlanT &p) { p.micro_batches = 1; },
     "a step has 1, the plan a program 'accumulate'"},
    {"NoProgram", C27, [](PlanT &p) { p.programs.pop_back(); },
     "a step has 2, the plan no program 'accumulate'"},
    {"OtherInputs", C27, [](PlanT &p) { p.programs[1]->inputs[0]->name = "y"; },
     "has other inputs or outputs than 'step'"},
    {"Turns", C35,
     [](PlanT &p) {
       p.programs[0]->turn = "a";
       p.programs[0]->next = 1;
       p.programs[1]->turn = "b";
     },
     "is one of several turns, and a step has several micro-batches"},
    {"Variant", C33, [](PlanT &p) { p.programs[1]->variant_of = 0; },
     "is a variant, and a step has several micro-batches"},
    {"NotAdded", C27, [](PlanT &p) { commands(p, 1).pop_back(); },
     "is added to 0 times, not 1"},
    {"ParameterUpdated", C27,
     [](PlanT &p) {
       UpdateT &update = *commands(p, 1).back()->operation.AsUpdate();
       update.parameter = update.rule = 0;
     },
     "updates 'w', which only the last micro-batch may"},
    {"AnotherRule", C27,
     [](PlanT &p) { commands(p, 1).back()->operation.AsUpdate()->rule = 0; },
     "changes 'w/grad' by a rule that is no addition"},
    {"ResetToZero", C27,
     [](PlanT &p) {
       commands(p, 0)[3]->operation.AsAten()->arguments[1]->d = 0.0;
     },
     "is put back to -0.0 0 times, not 1"},
    {"ReadAfterReset", C27,
     [](PlanT &p) {
       AtenT &add = *commands(p, 0)[2]->operation.AsAten();
       commands(p, 0).back()->operation.AsUpdate()->gradient =
           add.arguments[0]->value;
     },
     "is read after it was put back"},
    {"NotReset", C27,
     [](PlanT &p) { commands(p, 0).erase(commands(p, 0).begin() + 3); },
     "is put back to -0.0 0 times, not 1"},
};
INSTANTIATE_TEST_SUITE_P(MicroBatchChecker, BrokenMicroBatches,
                         ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
