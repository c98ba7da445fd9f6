// Tests that the bytes in use at one time are those between the first and last
// command that touches them.
#include "PlanBuilder.h"
#include "plan/check/LiveRanges.h"

#include <gtest/gtest.h>
#include <random>

using namespace fsdp::plan;
using namespace fsdp::test;

/// Its bytes may still be another value's.
TEST(LiveBytes, AViewOfWhatNobodyHasWrittenYetKeepsNothingAlive) {
  fsdp::test::PlanBuilder b(1);
  b.program("step");
  int a = b.newValue("a", {2, 3}), c = b.newValue("c", {2, 3});
  int view = b.viewValue("view", c, {3, 2}, {2, 1});
  int d = b.newValue("d", {3, 2});
  b.input("a", a, true);
  b.aten("aten::view", {value(c), integers({3, 2})}, {view}, /*view=*/true);
  b.aten("aten::neg", {value(a)}, {c});
  b.aten("aten::neg", {value(view)}, {d});
  LiveRange range = liveRanges(*b.plan.programs[0])[c];
  EXPECT_EQ(range.first, 1);
  EXPECT_EQ(range.last, 2);
}

TEST(LiveBytes, AgreesWithASumPerCommand) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    fsdp::test::PlanBuilder b(1);
    b.state("p", Role::Parameter, {20}); // takes 128 bytes
    b.program("step");
    struct Use {
      int first, last, bytes;
    };
    std::vector<Use> uses;
    std::vector<int> values;
    int count = 1 + random() % 20;
    for (int i = 0; i < count; ++i) {
      int elements = 1 + random() % 60;
      values.push_back(b.newValue("v", {elements}));
      uses.push_back({i, i, (elements * 4 + 63) / 64 * 64});
      Arguments arguments;
      for (int k = 0; k < i; ++k)
        if (random() % 4 == 0) {
          arguments.push_back(value(values[k]));
          uses[k].last = i;
        }
      b.aten("aten::op", arguments, {values[i]});
    }
    b.output("loss", values[0]);
    uses[0].last = count;
    int most = 0;
    for (int now = 0; now <= count; ++now) {
      int live = 128;
      for (const Use &use : uses)
        live += use.first <= now && now <= use.last ? use.bytes : 0;
      most = std::max(most, live);
    }
    EXPECT_EQ(liveBytes(b.plan, *b.plan.programs[0]), most) << "seed " << seed;
  }
}

/// A sent value of 64 bytes, a received one of 128, and one of 4,096 that lives
/// between the collective and the wait for it.
static uint64_t bytesOfAFlight(bool waits) {
  fsdp::test::PlanBuilder b(2);
  b.program("step");
  int sent = b.newValue("sent", {16}), received = b.newValue("received", {32});
  int other = b.newValue("other", {1024}), loss = b.newValue("loss", {});
  b.aten("aten::op", {}, {sent});
  b.collective(CollectiveKind::AllGather, sent, received, 16);
  auto &commands = b.plan.programs[0]->commands;
  commands.back()->stream = gatherStream;
  auto mark = [&](auto operation, uint32_t stream) {
    commands.push_back(std::make_unique<CommandT>());
    commands.back()->operation.Set(operation);
    commands.back()->stream = stream;
  };
  mark(RecordT(), gatherStream);
  if (!waits)
    mark(WaitT(), computeStream);
  b.aten("aten::op", {}, {other});
  if (waits)
    mark(WaitT(), computeStream);
  b.aten("aten::op", {value(received)}, {loss});
  b.output("loss", loss);
  return liveBytes(b.plan, *b.plan.programs[0]);
}

TEST(LiveBytes, ACollectiveUsesWhatItSendsUntilTheWait) {
  EXPECT_EQ(bytesOfAFlight(true), 64u + 128 + 4096);
  EXPECT_EQ(bytesOfAFlight(false), 128u + 4096);
}
