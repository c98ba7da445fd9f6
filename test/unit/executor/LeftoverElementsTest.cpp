// Tests that elements which PyTorch computes one by one, where it updates whole
// parameters, are found in what each rank holds.
#include "executor/LeftoverElements.h"

#include <gtest/gtest.h>

using namespace fsdp;

namespace {

using Shape = std::vector<int64_t>;
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

/// A plan of two ranks.
plan::PlanT twoRanks() {
  plan::PlanT plan;
  plan.mesh.push_back(std::make_unique<plan::MeshDimT>());
  plan.mesh[0]->size = 2;
  return plan;
}

plan::StateT &addState(plan::PlanT &plan, Shape shape, Shape local, int dim) {
  plan.states.push_back(std::make_unique<plan::StateT>());
  plan::StateT &state = *plan.states.back();
  state.shape = std::move(shape);
  state.local_shape = std::move(local);
  state.shard_dim = dim;
  return state;
}

/// Of the plan's first state, 16 elements at a time.
Ranges leftoverOf(const plan::PlanT &plan, uint32_t rank) {
  Ranges ranges;
  for (const ElementRange &range : leftoverElements(plan, 0, rank, 16))
    ranges.emplace_back(range.begin, range.end);
  return ranges;
}

} // namespace

TEST(LeftoverElements, AreTheLastOnesOfTheWhole) {
  plan::PlanT plan = twoRanks();
  addState(plan, {5, 7}, {3, 7}, 0);
  EXPECT_EQ(leftoverOf(plan, 0), Ranges());
  EXPECT_EQ(leftoverOf(plan, 1), (Ranges{{11, 14}}));
}

TEST(LeftoverElements, LieInSeveralRowsOfColumns) {
  plan::PlanT plan = twoRanks();
  addState(plan, {6, 4}, {6, 2}, 1);
  EXPECT_EQ(leftoverOf(plan, 0), (Ranges{{8, 12}}));
  addState(plan, {4, 6}, {4, 3}, 1);
  std::swap(plan.states[0], plan.states[1]);
  EXPECT_EQ(leftoverOf(plan, 0), (Ranges{{9, 12}}));
  EXPECT_EQ(leftoverOf(plan, 1), (Ranges{{7, 12}}));
}

TEST(LeftoverElements, AreThoseOfEachMemberOfAFlatState) {
  plan::PlanT plan = twoRanks();
  addState(plan, {56}, {28}, 0).is_flat = true;
  for (auto [offset, count] : {std::pair(35, 20), std::pair(0, 35)}) {
    plan::StateT &member = addState(plan, {count}, {count}, 0);
    member.flat = 0;
    member.flat_offset = offset;
  }
  EXPECT_EQ(leftoverOf(plan, 0), Ranges());
  EXPECT_EQ(leftoverOf(plan, 1), (Ranges{{4, 7}, {23, 27}}));
}

TEST(LeftoverElements, AreOnEachRankThatHasTheWhole) {
  plan::PlanT plan = twoRanks();
  addState(plan, {3, 6}, {3, 6}, -1);
  for (uint32_t rank : {0, 1})
    EXPECT_EQ(leftoverOf(plan, rank), (Ranges{{16, 18}}));
}
