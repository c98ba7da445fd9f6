// Tests that predictions agree with published figures of real machines.
#include "cost/Cost.h"
#include "cost/Work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

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

/// A cluster on which bytes alone take time: nodes of 8 ranks, each with a
/// network card of 50 B/s.
static Cluster withoutLatency() {
  Cluster cluster;
  cluster.ranksPerNode = 8;
  cluster.intraNode = {400, 0};
  cluster.interNode = {50, 0};
  return cluster;
}

/// nccl-tests count (R - 1) / R of the bytes, so that their figure for a ring
/// is that of its slowest link, whatever the number of nodes.
TEST(Cost, ARingOverNodesIsAsFastAsANodesNetworkCards) {
  Cluster cluster = withoutLatency();
  for (plan::CollectiveKind kind :
       {plan::CollectiveKind::AllGather, plan::CollectiveKind::ReduceScatter})
    for (double cards : {25., 50., 100.})
      for (unsigned ranks : {16u, 32u, 256u}) {
        cluster.interNode.bandwidth = cards;
        double seconds = collectiveSeconds(kind, 1e3, ranks, cluster);
        EXPECT_DOUBLE_EQ(1e3 * (ranks - 1) / ranks / seconds,
                         std::min(8 * cards, 400.));
      }
}

TEST(Cost, ANodeWithFewerRanksHasFewerRings) {
  EXPECT_DOUBLE_EQ(collectiveSeconds(plan::CollectiveKind::AllGather, 1200, 12,
                                     withoutLatency()),
                   1100 / (4 * 50.));
}

/// Of replicas of shards: each of a node's ranks is in a ring of its own.
TEST(Cost, RingsBesideEachOtherShareNoNetworkCard) {
  EXPECT_DOUBLE_EQ(collectiveSeconds(plan::CollectiveKind::AllReduce, 1e3, 2,
                                     withoutLatency(), /*stride=*/8),
                   2 * 500 / 50.);
  EXPECT_DOUBLE_EQ(collectiveSeconds(plan::CollectiveKind::AllReduce, 1e3, 4,
                                     withoutLatency(), /*stride=*/4),
                   2 * 750 / (2 * 50.));
}

/// Nobody passes on what is for one rank alone.
TEST(Cost, AnAllToAllLeavesByEachRanksOwnCard) {
  EXPECT_DOUBLE_EQ(collectiveSeconds(plan::CollectiveKind::AllToAll, 1600, 16,
                                     withoutLatency()),
                   800 / 50.);
  EXPECT_DOUBLE_EQ(collectiveSeconds(plan::CollectiveKind::AllToAll, 1600, 8,
                                     withoutLatency()),
                   1400 / 400.);
}

TEST(Cost, StepsOverTheNetworkAreFewerThanSteps) {
  Cluster cluster = withoutLatency();
  cluster.intraNode.latency = 1;
  cluster.interNode.latency = 100;
  for (auto [kind, rounds] : {std::pair(plan::CollectiveKind::AllGather, 1),
                              std::pair(plan::CollectiveKind::AllReduce, 2)})
    EXPECT_DOUBLE_EQ(collectiveSeconds(kind, 0, 32, cluster),
                     rounds * (3 * 100 + 28 * 1));
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

TEST(Cost, EachRowOfAGroupedProductIsInOneGroup) {
  std::vector<int64_t> rows = {10, 16}, experts = {4, 16, 24}, made = {10, 24};
  auto shape = [](const std::vector<int64_t> &sizes) {
    return TensorShape{plan::DType::Float32, sizes.data(), sizes.size()};
  };
  double once = 2. * 10 * 16 * 24;
  EXPECT_EQ(
      workOf("_grouped_mm", {shape(rows), shape(experts)}, {shape(made)}).flops,
      once);
  // The gradient of the experts: 16 x 24 of each, from its rows alone.
  std::vector<int64_t> turned = {16, 10};
  EXPECT_EQ(
      workOf("_grouped_mm", {shape(turned), shape(made)}, {shape(experts)})
          .flops,
      once);
}
