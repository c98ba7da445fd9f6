// Tests that plans of some kilobytes, whose check would take hours or all of
// the memory, are refused (C38).
#include "plan/check/CheckingBudget.h"
#include "BrokenPlans.h"
#include "PlanBuilder.h"

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Copies, each of so many blocks that lie apart in a value of its own.
PlanT manyBlocks(const std::vector<uint64_t> &copies) {
  fsdp::test::PlanBuilder builder(1);
  builder.program("step");
  int x = builder.newValue("x", {});
  builder.input("x", x, true);
  builder.output("loss", x);
  for (uint64_t blocks : copies) {
    int value = builder.newValue("sparse", {int64_t(2 * blocks)});
    builder.copy(-1, value, 4);
    auto &command = *builder.plan.programs[0]->commands.back();
    PieceT &piece = *command.operation.AsCopy()->pieces[0];
    piece.blocks = blocks;
    piece.destination_stride = 8;
  }
  return std::move(builder.finish());
}

/// Views of views of views.
PlanT deepViews(int depth) {
  fsdp::test::PlanBuilder builder(1);
  builder.program("step");
  int x = builder.newValue("x", {});
  builder.input("x", x, true);
  builder.output("loss", x);
  for (int i = 0, last = x; i < depth; ++i)
    last = builder.viewValue("view", last, {}, {});
  return builder.finish();
}

/// Streams that wait again and again for each other: what is under way on one
/// is then so on the other.
PlanT manyWaits(uint32_t rounds, int waits) {
  fsdp::test::PlanBuilder builder(1);
  builder.program("step");
  int x = builder.newValue("x", {}), all = builder.newValue("all", {});
  builder.input("x", x, true);
  builder.output("loss", all);
  builder.collective(CollectiveKind::AllGather, x, all, 1);
  ProgramT &program = *builder.plan.programs[0];
  CommandT &gather = *program.commands[0];
  gather.stream = gatherStream;
  gather.operation.AsCollective()->channel = channelOf(gatherStream);
  auto add = [&](auto operation, uint32_t event, uint32_t stream) {
    operation.event = event;
    auto command = std::make_unique<CommandT>();
    command->operation.Set(std::move(operation));
    command->stream = stream;
    program.commands.push_back(std::move(command));
  };
  for (uint32_t event = 0; event < rounds; ++event) {
    uint32_t from = event % 2 ? reduceStream : gatherStream;
    add(RecordT(), event, from);
    for (int i = 0; i < waits; ++i)
      add(WaitT(), event, gatherStream + reduceStream - from);
  }
  add(WaitT(), rounds - 1, computeStream);
  program.events = rounds;
  return std::move(builder.finish());
}

} // namespace

using Small = Break<PlanT>;

class SmallPlan : public testing::TestWithParam<Small> {};

TEST_P(SmallPlan, IsRefused) {
  PlanT plan;
  GetParam().apply(plan);
  GetParam().expectRefused(plan);
}

INSTANTIATE_TEST_SUITE_P(
    CheckingBudget, SmallPlan,
    testing::Values(
        Small{"Blocks", C38,
              [](PlanT &plan) {
                plan = manyBlocks({1000, CheckingBudget::mostKept - 999});
              },
              "has too many blocks that do not lie alike"},
        Small{"DeepViews", C38, [](PlanT &plan) { plan = deepViews(20'000); },
              "looks at too many ranges of bytes"}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(CheckingBudget, WhatIsUnderWayIsCountedOnce) {
  EXPECT_EQ(check(manyWaits(20, 50)), "");
}
