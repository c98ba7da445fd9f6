// Tests that planned blocks which are in use at one time share no byte, and
// that reuse never costs memory.
#include "fsdp/Analysis/OffsetPlanner.h"

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
    OffsetPlan reused = planOffsets(blocks, /*reuse=*/true);
    OffsetPlan apart = planOffsets(blocks, /*reuse=*/false);
    expectApart(blocks, reused);
    expectApart(blocks, apart);
    EXPECT_LE(reused.bytes, apart.bytes);
    EXPECT_GE(reused.bytes, getPeakBytes(blocks));
  }
}

TEST(OffsetPlanner, BlocksOneAfterTheOtherShareTheirBytes) {
  OffsetPlan plan = planOffsets({{0, 1, 100}, {2, 3, 100}, {4, 4, 60}}, true);
  EXPECT_EQ(plan.bytes, 128);
  EXPECT_EQ(planOffsets({{0, 1, 100}, {1, 3, 100}}, true).bytes, 256);
}

TEST(OffsetPlanner, EmptyBlocksTakeNothing) {
  EXPECT_EQ(planOffsets({}, true).bytes, 0);
  EXPECT_EQ(planOffsets({{0, 5, 0}, {0, 5, 0}}, true).bytes, 0);
}
