// Tests what is computed of shapes that nobody has checked yet, and groups of
// ranks.
#include "plan/PlanTypes.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

using namespace fsdp::plan;

TEST(PlanTypes, StridesPastTheLargestNumberDoNotWrap) {
  std::vector<int64_t> expected = {INT64_MAX, INT64_MAX, 4, 1};
  EXPECT_EQ(rowMajorStrides({3, 2, INT64_MAX, 4}), expected);
}

TEST(PlanTypes, ADimensionOfNothingCountsAsOne) {
  std::vector<int64_t> expected = {6, 3, 3, 1};
  EXPECT_EQ(rowMajorStrides({4, 2, 0, 3}), expected);
}

static PlanT withMesh(const std::vector<uint32_t> &replicas, uint32_t shards) {
  PlanT plan;
  for (uint32_t size : replicas) {
    plan.mesh.push_back(std::make_unique<MeshDimT>());
    plan.mesh.back()->name = "replicate" + std::to_string(plan.mesh.size());
    plan.mesh.back()->size = size;
    plan.mesh.back()->role = AxisRole::Replicate;
  }
  plan.mesh.push_back(std::make_unique<MeshDimT>());
  plan.mesh.back()->name = "shard";
  plan.mesh.back()->size = shards;
  return plan;
}

TEST(PlanTypes, DimensionsOfARoleAreTheirProduct) {
  PlanT cube = withMesh({2, 3}, 4), product = withMesh({6}, 4);
  for (AxisRole role : {AxisRole::Replicate, AxisRole::Shard}) {
    MeshDims dims = dimsOf(cube, role);
    CollectiveT over;
    over.mesh_dim = dims.first;
    over.mesh_dims = dims.count;
    EXPECT_TRUE(isOver(cube, over, role));
    for (uint32_t rank = 0; rank < numRanks(cube); ++rank) {
      RankGroup group = groupOf(cube, over, rank);
      RankGroup of = groupOf(product, dimsOf(product, role), rank);
      EXPECT_EQ(std::tie(group.first, group.stride, group.size),
                std::tie(of.first, of.stride, of.size));
      EXPECT_TRUE(group.contains(rank));
    }
  }
  EXPECT_EQ(formatDims(cube, dimsOf(cube, AxisRole::Replicate)),
            "replicate1 x replicate2");
}

TEST(PlanTypes, ACollectiveOverSomeDimensionsOfARoleIsOverNone) {
  PlanT cube = withMesh({2, 2}, 2);
  CollectiveT some;
  EXPECT_FALSE(isOver(cube, some, AxisRole::Replicate));
  some.mesh_dims = 0;
  EXPECT_FALSE(isOver(withMesh({}, 2), some, AxisRole::Replicate));
}

TEST(PlanTypes, DimensionsOfOneRankHaveNoBit) {
  PlanT plan = withMesh(std::vector<uint32_t>(40, 1), 2);
  plan.mesh[3]->size = 2;
  EXPECT_EQ(bitsOf(plan, {0, 3}), 0u);
  EXPECT_EQ(bitsOf(plan, {0, 40}), 1u);
  EXPECT_EQ(bitsOf(plan, {40, 1}), 2u);
}
