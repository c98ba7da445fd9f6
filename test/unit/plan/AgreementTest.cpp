// Tests that what ranks have the same of is changed by no rank's own numbers.
#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Replicas of two shards train w, [4]: the loss is x itself, and w's gradient
/// x, which is summed over shards and then over replicas. These have two ranks
/// along each of the mesh's first dimensions.
class SummedGradient : public fsdp::test::PlanBuilder {
public:
  explicit SummedGradient(std::vector<std::string> replicas = {"replicas"})
      : fsdp::test::PlanBuilder(2) {
    uint32_t ranks = 2, shards = replicas.size();
    for (const std::string &name : replicas) {
      auto dim = std::make_unique<MeshDimT>();
      dim->name = name;
      dim->size = 2;
      dim->role = AxisRole::Replicate;
      plan.mesh.insert(plan.mesh.end() - 1, std::move(dim));
      ranks *= 2;
    }
    plan.units.push_back(std::make_unique<UnitT>());
    plan.gradient_divisor = ranks;
    unsigned rule = addSgdRule(*this);
    w = state("w", Role::Parameter, {4}, /*sharded=*/true);
    plan.states[w]->unit = 0;
    buffer = state("buffer", Role::Buffer, {});
    program("step");
    x = newValue("x", {4});
    loss = newValue("loss", {});
    input("x", x, true);
    mean = newValue("mean", {});
    aten("aten::sum", {value(x)}, {mean});
    part = newValue("part", {2});
    scatter = reduce(CollectiveKind::ReduceScatter, x, part, shards);
    sum = newValue("sum", {2});
    add = reduce(CollectiveKind::AllReduce, part, sum, 0);
    add->mesh_dims = shards;
    add->divisor = ranks;
    bufferValue = stateValue(buffer);
    kept = &aten("aten::neg", {value(bufferValue)}, {loss});
    number_ = newValue("number", {});
    aten("aten::neg", {value(loss)}, {number_});
    update(rule, w, sum);
    changed = plan.programs[0]->commands.back()->operation.AsUpdate();
    output("loss", loss);
  }

  CollectiveT *reduce(CollectiveKind kind, int from, int to, uint32_t dim) {
    collective(kind, from, to, 2);
    auto *made = plan.programs[0]->commands.back()->operation.AsCollective();
    made->mesh_dim = dim;
    made->unit = 0;
    made->divisor = 1;
    return made;
  }

  unsigned w, buffer;
  int x, loss, mean, part, sum, bufferValue, number_;
  CollectiveT *scatter, *add;
  AtenT *kept;
  UpdateT *changed;
};

struct BrokenAgreement : ::testing::TestWithParam<Break<SummedGradient>> {};

} // namespace

TEST(Agreement, HoldsWhereEveryRankIsAdded) {
  SummedGradient step;
  EXPECT_EQ(check(step.finish()), "");
}

TEST(Agreement, HoldsOverSeveralDimensionsOfReplicas) {
  SummedGradient step({"pods", "hosts"});
  EXPECT_EQ(check(step.finish()), "");
}

TEST(Agreement, IsRefusedWhereASumIsOverSomeReplicas) {
  for (uint32_t dim : {0, 1}) {
    SummedGradient step({"pods", "hosts"});
    step.add->mesh_dim = dim;
    step.add->mesh_dims = 1;
    EXPECT_NE(check(step.finish()).find("C32"), std::string::npos);
    EXPECT_NE(check(step.finish()).find("which are not all that have its role"),
              std::string::npos);
  }
}

TEST(Agreement, IsNotAskedOfParametersThatEachRankHasForItself) {
  SummedGradient step;
  step.plan.states[step.w]->unit = -1;
  step.changed->gradient = step.part;
  step.copy(step.sum, step.sum, 0); // refused further on, for another reason
  EXPECT_EQ(check(step.finish()).find("C32"), std::string::npos);
}

TEST(Agreement, IsWhatTheStepItselfAddsUpOverAllRanks) {
  for (bool overBoth : {true, false}) {
    SummedGradient step;
    int half = step.newValue("half", {}), all = step.newValue("all", {});
    for (auto [from, to, dim] : {std::tuple(step.mean, half, 1u),
                                 std::tuple(half, all, overBoth ? 0u : 1u)}) {
      CollectiveT *sum = step.reduce(CollectiveKind::AllReduce, from, to, dim);
      sum->of_step = true;
      sum->count = 1;
      sum->unit = -1;
    }
    auto &commands = step.plan.programs[0]->commands;
    std::rotate(commands.end() - 3, commands.end() - 2, commands.end());
    step.changed->scale = all;
    EXPECT_EQ(check(step.finish()).empty(), overBoth);
  }
}

TEST_P(BrokenAgreement, IsRefused) {
  SummedGradient step;
  GetParam().apply(step);
  GetParam().expectRefused(step.finish());
}

INSTANTIATE_TEST_SUITE_P(
    Ways, BrokenAgreement,
    ::testing::ValuesIn(std::vector<Break<SummedGradient>>{
        {"SumOverShardsTwice", C32,
         [](SummedGradient &s) {
           s.add->mesh_dim = 1;
           s.add->divisor = 1;
         },
         "changes 'w' by what each rank along mesh dimension 'replicas' has "
         "for itself"},
        {"ScatterAlongReplicas", C32,
         [](SummedGradient &s) { s.scatter->mesh_dim = 0; },
         "gathers or scatters along 'replicas'"},
        {"ExchangedScale", C32,
         [](SummedGradient &s) {
           // Each rank along the shards has other pieces of the batches.
           int pieces = s.newValue("pieces", {4});
           int total = s.newValue("total", {}), scale = s.newValue("scale", {});
           s.reduce(CollectiveKind::AllToAll, s.x, pieces, 1)->count = 2;
           s.aten("aten::sum", {value(pieces)}, {total});
           CollectiveT *sum =
               s.reduce(CollectiveKind::AllReduce, total, scale, 0);
           sum->count = 1;
           sum->divisor = 4;
           s.changed->scale = scale;
           auto &commands = s.plan.programs[0]->commands;
           std::rotate(commands.end() - 4, commands.end() - 3, commands.end());
         },
         "changes 'w' by what each rank along mesh dimension 'shard"},
        {"OwnScale", C32, [](SummedGradient &s) { s.changed->scale = s.mean; },
         "changes 'w' by what each rank along mesh dimension 'replicas'"},
        {"ScaledByTheRank", C32,
         [](SummedGradient &s) {
           auto rank = std::make_unique<ScalarT>();
           rank->kind = ScalarKind::Rank;
           s.plan.programs[0]->scalars.push_back(std::move(rank));
           *s.kept = AtenT();
           s.kept->name = "aten::scalar_tensor";
           s.kept->arguments.push_back(std::make_unique<ArgumentT>(scalar(0)));
           s.kept->results = {s.loss};
           s.changed->scale = s.number_;
         },
         "changes 'w' by what each rank along mesh dimension 'replicas'"},
        {"OwnScaleThroughABuffer", C32,
         [](SummedGradient &s) {
           // What the step before left there was each rank's own.
           s.copy(s.mean, s.bufferValue, 4);
           s.changed->scale = s.number_;
         },
         "changes 'w' by what each rank along mesh dimension 'replicas'"},
        {"RandomNumbers", C32,
         [](SummedGradient &s) {
           s.kept->arguments.push_back(std::make_unique<ArgumentT>(site(1)));
           s.changed->scale = s.number_;
         },
         "changes 'w' by what each rank along mesh dimension 'replicas'"},
        {"UnwrittenMemory", C32,
         [](SummedGradient &s) {
           s.kept->name = "aten::empty_like";
           s.changed->scale = s.number_;
         },
         "changes 'w' by what each rank along mesh dimension 'replicas'"}}),
    [](const auto &info) { return info.param.name; });
