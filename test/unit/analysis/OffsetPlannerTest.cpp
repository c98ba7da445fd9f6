// Tests that planned blocks which are in use at one time share no byte, and how
// close plans come to what no plan can be below.
#include "fsdp/Analysis/OffsetPlanner.h"

#include <chrono>
#include <gtest/gtest.h>
#include <random>

using namespace fsdp;

static void expectApart(const std::vector<LiveBlock> &blocks,
                        const OffsetPlan &plan) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0);
    EXPECT_LE(plan.offsets[i] + blocks[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j)
      if (blocks[i].overlaps(blocks[j]) && blocks[i].bytes && blocks[j].bytes) {
        bool apart = plan.offsets[i] + blocks[i].bytes <= plan.offsets[j] ||
                     plan.offsets[j] + blocks[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(apart) << "blocks " << i << " and " << j;
      }
  }
}

TEST(OffsetPlanner, RandomLivenessSharesNoByte) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<LiveBlock> blocks(random() % 60);
    for (LiveBlock &block : blocks) {
      block.first = static_cast<int64_t>(random() % 100) - 1;
      block.last = block.first + random() % (seed % 3 ? 8 : 60);
      block.bytes = random() % 4 ? random() % 5000 : random() % 130;
    }
    OffsetPlan reused = planBest(blocks);
    OffsetPlan apart = planApart(blocks);
    expectApart(blocks, reused);
    expectApart(blocks, apart);
    EXPECT_LE(reused.bytes, apart.bytes);
    EXPECT_GE(reused.bytes, getPeakBytes(blocks));
  }
}

/// Blocks as a training step has them: `layers` times some temporaries, what
/// backward reads again, and a unit's parameters around them; then the same
/// backwards.
static std::vector<LiveBlock> makeStep(int layers, int opsPerLayer,
                                       unsigned seed) {
  std::mt19937 random(seed);
  std::vector<LiveBlock> blocks;
  int64_t end = 2 * int64_t(layers) * opsPerLayer;
  for (int64_t op = 0; op < end; ++op) {
    bool forward = op < end / 2;
    int64_t bytes = 64 + random() % 100'000;
    if (op % opsPerLayer == 0) // gathered for a layer, one layer early
      blocks.push_back({std::max<int64_t>(op - opsPerLayer, 0),
                        op + opsPerLayer - 1, 2'000'000});
    if (forward && random() % 3 == 0) // saved for backward
      blocks.push_back({op, end - 1 - op + int64_t(random() % 8), bytes});
    else
      blocks.push_back({op, op + 1 + int64_t(random() % 6), bytes});
  }
  return blocks;
}

TEST(OffsetPlanner, StepsTakeHardlyMoreThanWhatIsInUse) {
  for (int layers : {1, 2, 6, 12, 32}) {
    std::vector<LiveBlock> blocks = makeStep(layers, 40, layers);
    OffsetPlan plan = planBest(blocks);
    expectApart(blocks, plan);
    EXPECT_LE(plan.bytes, 1.02 * getPeakBytes(blocks)) << layers << " layers";
  }
}

TEST(OffsetPlanner, HundredThousandBlocksTakeSeconds) {
  std::vector<LiveBlock> blocks = makeStep(500, 100, 1);
  ASSERT_GE(blocks.size(), 100'000u);
  auto begin = std::chrono::steady_clock::now();
  OffsetPlan plan = planBest(blocks);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(plan.bytes, 1.05 * getPeakBytes(blocks));
  EXPECT_LT(took.count(), 20); // of which it takes a tenth on an idle machine
}

TEST(OffsetPlanner, IsTheSameEveryTime) {
  std::vector<LiveBlock> blocks = makeStep(3, 40, 1);
  EXPECT_EQ(planBest(blocks).offsets, planBest(blocks).offsets);
}

TEST(OffsetPlanner, BlocksOneAfterTheOtherShareTheirBytes) {
  EXPECT_EQ(planBest({{0, 1, 100}, {2, 3, 100}, {4, 4, 60}}).bytes, 128);
  EXPECT_EQ(planBest({{0, 1, 100}, {1, 3, 100}}).bytes, 256);
}

TEST(OffsetPlanner, EmptyBlocksTakeNothing) {
  EXPECT_EQ(planBest({}).bytes, 0);
  EXPECT_EQ(planBest({{0, 5, 0}, {0, 5, 0}}).bytes, 0);
}
