// Tests that ranks read samples in the order of PyTorch's DistributedSampler
// and DataLoader.
#include "data/Sampler.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fsdp;
using Indices = std::vector<int64_t>;

TEST(Sampler, InStoredOrderRanksTakeTurns) {
  Sampler sampler{11, 2, 1, 2, /*shuffle=*/false, 0};
  EXPECT_EQ(sampler.batches(), 2);
  EXPECT_EQ(sampler.dropped(), 3);
  EXPECT_EQ(sampler.epoch(0), (Indices{1, 3, 5, 7}));
  EXPECT_EQ(sampler.epoch(5), (Indices{1, 3, 5, 7}));
}

TEST(Sampler, TheRestMayBeABatch) {
  Sampler sampler{11, 2, 1, 2, /*shuffle=*/false, 0};
  sampler.last = sampler.rest();
  EXPECT_EQ(sampler.perEpoch(), 3);
  EXPECT_EQ(sampler.sizeOf(1), 2);
  EXPECT_EQ(sampler.sizeOf(2), 1);
  EXPECT_EQ(sampler.dropped(), 1);
  EXPECT_EQ(sampler.epoch(0), (Indices{1, 3, 5, 7, 9}));
}

// What this printed:
//   s = DistributedSampler(range(10), num_replicas=2, rank=r, shuffle=True,
//                          seed=3, drop_last=True); s.set_epoch(1); list(s)
TEST(Sampler, ShufflesAsPython) {
  EXPECT_EQ((Sampler{10, 2, 0, 1, true, 3}.epoch(1)), (Indices{0, 9, 7, 2, 1}));
  EXPECT_EQ((Sampler{10, 2, 1, 1, true, 3}.epoch(1)), (Indices{4, 6, 3, 8, 5}));
}

TEST(Sampler, RanksReadEachSampleOnce) {
  for (int ranks : {1, 3, 4}) {
    Indices all;
    for (int rank = 0; rank < ranks; ++rank)
      for (int64_t i : Sampler{101, ranks, rank, 5, true, 0}.epoch(7))
        all.push_back(i);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
    EXPECT_EQ(all.size(), size_t(101 / ranks / 5 * 5 * ranks));
  }
}
