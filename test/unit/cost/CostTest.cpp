// Tests that predictions agree with published figures of real machines.
#include "cost/Cost.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::cost;

/// Bus bandwidth of an all-reduce in bytes per second, as nccl-tests define it.
static double busBandwidth(double bytes, unsigned ranks, const char *cluster) {
  double seconds = collectiveSeconds(plan::CollectiveKind::AllReduce, bytes,
                                     ranks, findCluster(cluster));
  return 2 * bytes * (ranks - 1) / ranks / seconds;
}

TEST(Cost, AllReduceOfEightH200AsMeasured) {
  constexpr double mib = 1 << 20;
  EXPECT_NEAR(busBandwidth(1 * mib, 8, "h200x8"), 40e9, 6e9);
  EXPECT_NEAR(busBandwidth(16 * mib, 8, "h200x8"), 220e9, 22e9);
  EXPECT_NEAR(busBandwidth(64 * mib, 8, "h200x8"), 347e9, 35e9);
}

TEST(Cost, AllReduceOfFourNodesOfB200AsMeasured) {
  EXPECT_NEAR(busBandwidth(1 << 30, 32, "b200x8"), 362e9, 36e9);
}

TEST(Cost, OneRankTalksToNobody) {
  EXPECT_EQ(collectiveSeconds(plan::CollectiveKind::AllGather, 1e9, 1,
                              findCluster("h100x8")),
            0);
}

TEST(Cost, RanksThatAreANodeApartTalkBetweenNodes) {
  Cluster cluster = findCluster("h100x8");
  auto seconds = [&](unsigned stride) {
    return collectiveSeconds(plan::CollectiveKind::AllReduce, 1e8, 2, cluster,
                             stride);
  };
  EXPECT_EQ(seconds(1), seconds(4));
  EXPECT_GT(seconds(8), seconds(4));
}

TEST(Cost, AnAllReduceIsBothHalves) {
  Cluster cluster = findCluster("h100x8");
  cluster.collectiveSeconds = 0;
  double half =
      collectiveSeconds(plan::CollectiveKind::AllGather, 1e8, 8, cluster);
  EXPECT_DOUBLE_EQ(
      collectiveSeconds(plan::CollectiveKind::ReduceScatter, 1e8, 8, cluster),
      half);
  EXPECT_DOUBLE_EQ(
      collectiveSeconds(plan::CollectiveKind::AllReduce, 1e8, 8, cluster),
      2 * half);
}

TEST(Cost, KernelsAreBoundByComputeOrByMemory) {
  Cluster cluster;
  cluster.flops = {{plan::DType::Float32, 100}};
  cluster.memoryBandwidth = 10;
  cluster.launchSeconds = 1;
  EXPECT_DOUBLE_EQ(kernelSeconds(200, 5, plan::DType::Float32, cluster), 3);
  EXPECT_DOUBLE_EQ(kernelSeconds(200, 50, plan::DType::Float32, cluster), 6);
  // What is not listed computes as float32 does.
  EXPECT_DOUBLE_EQ(kernelSeconds(200, 5, plan::DType::BFloat16, cluster), 3);
}
