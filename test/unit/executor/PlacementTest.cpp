// Tests that kernels' outputs land where the plan has them and all else they
// allocate in the scratch, and that results do not depend on whether they do.
#include "executor/Executor.h"

#include "PlanBuilder.h"
#include "TensorFunctions.h"
#include "ThreadRanks.h"
#include "executor/HostBackend.h"
#include "executor/OperatorMemory.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

at::Tensor numbers(at::IntArrayRef shape, int salt) {
  int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kFloat) * 0.7 + salt).reshape(shape);
}

void set(Executor &executor, int input, const at::Tensor &tensor) {
  executor.setInput(0, input, tensor.contiguous().const_data_ptr());
}

struct OneRank {
  std::unique_ptr<Executor> load(const plan::PlanT &plan,
                                 ExecutorOptions options = {}) {
    return std::make_unique<Executor>(plan, backend, options);
  }
  std::unique_ptr<Communicator> communicator = ThreadRanks(1).connect(0);
  HostBackend backend{*communicator};
};

} // namespace

TEST(Placement, RunsAfterTheFirstCopyAndAllocateNothing) {
  auto builder = linearRegression(1, 3, 5, 4);
  OneRank rank;
  auto executor = rank.load(builder->finish());
  for (int step = 1; step <= 3; ++step) {
    set(*executor, 0, numbers({4, 5}, step));
    set(*executor, 1, numbers({4, 3}, step));
    executor->run(0, step);
  }
  EXPECT_TRUE(executor->counters().outputsCopied.empty());
  EXPECT_EQ(executor->counters().bytesAllocatedInSteps, 0u);
}

// An inverse comes in columns.
TEST(Placement, WhatIsCopiedIsNamed) {
  PlanBuilder b{1};
  b.program("step");
  int x = b.newValue("x", {3, 3}), y = b.newValue("y", {3, 3});
  int sum = b.newValue("sum", {});
  b.input("x", x, false);
  b.aten("aten::inverse", {value(x)}, {y});
  b.aten("aten::sum", {value(y)}, {sum});
  b.output("sum", sum);
  OneRank rank;
  auto executor = rank.load(b.finish());
  for (int step = 1; step <= 3; ++step) {
    set(*executor, 0, at::eye(3));
    executor->run(0, step);
    EXPECT_EQ(executor->outputs().at(0), 3);
  }
  const auto &copied = executor->counters().outputsCopied;
  ASSERT_EQ(copied.size(), 1u);
  EXPECT_NE(copied.begin()->first.find("aten::inverse"), std::string::npos);
  EXPECT_EQ(copied.begin()->second.count, 2u);
  EXPECT_EQ(copied.begin()->second.bytes, 2u * 36);
}

class Convolution : public testing::TestWithParam<bool> {};

// oneDNN first allocates a buffer as large as the output.
TEST_P(Convolution, LandsAndIsBitwisePyTorchs) {
  PlanBuilder b{1};
  b.program("step");
  int x = b.newValue("x", {2, 16, 12, 12});
  int w = b.newValue("w", {16, 16, 3, 3});
  int y = b.newValue("y", {2, 16, 12, 12});
  b.input("x", x, false);
  b.input("w", w, false);
  plan::ArgumentT none;
  none.kind = plan::ArgumentKind::None;
  plan::ArgumentT no;
  no.kind = plan::ArgumentKind::Bool;
  b.aten("aten::convolution",
         {value(x), value(w), none, integers({1, 1}), integers({1, 1}),
          integers({1, 1}), no, integers({0, 0}), integer(1)},
         {y});
  int sum = b.newValue("sum", {});
  b.aten("aten::sum", {value(y)}, {sum});
  b.output("sum", sum);
  OneRank rank;
  ExecutorOptions options;
  options.poison = GetParam();
  auto executor = rank.load(b.finish(), options);
  at::Tensor weight = numbers({16, 16, 3, 3}, 1);
  for (int run = 1; run <= 4; ++run) {
    at::Tensor image = numbers({2, 16, 12, 12}, run);
    set(*executor, 0, image);
    set(*executor, 1, weight);
    executor->run(0, run);
    at::Tensor expected = at::convolution(image, weight, {}, {1, 1}, {1, 1},
                                          {1, 1}, false, {0, 0}, 1);
    EXPECT_EQ(executor->outputs().at(0), expected.sum().item<double>());
  }
  EXPECT_TRUE(executor->counters().outputsCopied.empty());
}

INSTANTIATE_TEST_SUITE_P(Poison, Convolution, testing::Bool());

/// One operator's allocations, made by hand.
class OperatorMemoryTest : public testing::Test {
protected:
  OperatorMemoryTest() { lendMemory(place, place + sizeof(place)); }
  ~OperatorMemoryTest() override { forgetMemory(place); }

  /// A run that allocates tensors of these lengths; `address` is the last's,
  /// which is the output.
  void run(std::vector<int64_t> lengths) {
    std::vector<at::Tensor> results;
    if (memory.isLearning() && expected)
      memory.expectOutput(place, expected);
    {
      UseScratch use(scratch);
      {
        OperatorMemory::Attention attention(memory);
        std::vector<at::Tensor> all;
        for (int64_t length : lengths)
          all.push_back(at::empty({length}));
        results.push_back(all.back());
        if (keep)
          kept = all.front();
      }
      if (memory.isLearning())
        memory.learnOutput(results[0], place, sizeof(place));
      address = results[0].data_ptr();
      taken = memory.endRun(results);
    }
    scratch.grow();
  }

  alignas(64) char place[256];
  Scratch scratch{c10::kCPU, allocateHostScratch};
  OperatorMemory memory{scratch};
  void *address = nullptr;
  uint64_t expected = 0, taken = 0;
  bool keep = false;
  at::Tensor kept;
};

TEST_F(OperatorMemoryTest, AnAllocationIsKnownByItsPosition) {
  run({8, 8});
  EXPECT_NE(address, place);
  uint64_t outside = scratch.bytesOutside();
  run({8, 8});
  EXPECT_EQ(address, place);
  EXPECT_EQ(scratch.bytesOutside(), outside);
  EXPECT_EQ(scratch.bytes(), 64u);
}

TEST_F(OperatorMemoryTest, AnExpectedOutputTakesNoSecondMemory) {
  expected = 8 * sizeof(float);
  for (int i = 0; i < 2; ++i) {
    run({4, 8});
    EXPECT_EQ(address, place);
    EXPECT_EQ(taken, 0u);
  }
  EXPECT_EQ(scratch.bytes(), 64u);
}

TEST_F(OperatorMemoryTest, ABufferAsLargeAsTheOutputIsNotTakenForIt) {
  expected = 8 * sizeof(float);
  run({8, 8});
  EXPECT_NE(address, place);
  run({8, 8});
  EXPECT_EQ(address, place);
  EXPECT_EQ(scratch.bytes(), 64u);
}

TEST_F(OperatorMemoryTest, WhoKeepsAnOutputsPlaceIsSeen) {
  expected = 8 * sizeof(float);
  keep = true;
  run({8, 8});
  EXPECT_EQ(taken, 8 * sizeof(float));
}

TEST_F(OperatorMemoryTest, AnotherSequenceLandsElsewhere) {
  run({8, 8});
  run({16, 8, 8});
  EXPECT_NE(address, place);
  run({8, 8});
  EXPECT_EQ(address, place);
}

TEST_F(OperatorMemoryTest, WhatOutlivesTheFirstRunIsNeverScratch) {
  keep = true;
  run({8, 8});
  run({8, 8});
  EXPECT_NE(address, place);
  EXPECT_EQ(scratch.bytes(), 0u);
}

TEST_F(OperatorMemoryTest, WhatOutlivesALaterRunKeepsItsBytes) {
  run({8, 8});
  keep = true;
  run({8, 8});
  kept.fill_(3);
  keep = false;
  at::Tensor first = kept;
  run({8, 8});
  EXPECT_TRUE(at::equal(first, at::full({8}, 3)));
}

TEST_F(OperatorMemoryTest, AnOutputTooLargeForItsPlaceIsNotPlaced) {
  run({8, 1000});
  run({8, 1000});
  EXPECT_NE(address, place);
}

TEST(BlockStackTest, FallsToTheHighestBlockInUse) {
  BlockStack stack;
  uint64_t a = stack.push(1), b = stack.push(65), c = stack.push(64);
  EXPECT_EQ(a, 0u);
  EXPECT_EQ(b, 64u);
  EXPECT_EQ(c, 192u);
  stack.remove(b);
  EXPECT_EQ(stack.top(), 256u);
  stack.remove(c);
  EXPECT_EQ(stack.top(), 64u);
  stack.remove(a);
  EXPECT_TRUE(stack.empty());
}
