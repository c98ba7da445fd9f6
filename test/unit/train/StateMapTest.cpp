// Tests that the map of states knows for each element of a tensor which ranks
// hold it and where, and what files call the tensor.
#include "state/StateMap.h"

#include "PlanBuilder.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// How often each element of a tensor is held, by all ranks together; checks
/// that runs ascend in the rank's part and stay in it.
std::vector<int> holders(const plan::PlanT &plan, const StateMap &map,
                         const NamedState &tensor, int64_t partSize) {
  std::vector<int> held(*plan::numElements(tensor.shape));
  for (uint64_t rank = 0; rank < plan::numRanks(plan); ++rank) {
    int64_t end = 0;
    for (const Run &run : map.part(tensor, rank).runs()) {
      EXPECT_GE(run.local, end);
      EXPECT_GT(run.count, 0);
      end = run.local + run.count;
      for (int64_t i = 0; i < run.count; ++i)
        ++held.at(run.whole + i);
    }
    EXPECT_LE(end, partSize);
  }
  return held;
}

} // namespace

TEST(StateMap, EachElementIsHeldOnceOrByAll) {
  const Shape shape = {3, 5, 2};
  for (unsigned ranks = 1; ranks < 5; ++ranks)
    for (int dim = -1; dim < 3; ++dim) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, dimension " +
                   std::to_string(dim));
      PlanBuilder builder(ranks);
      plan::StateT &state =
          *builder.plan
               .states[builder.state("w", plan::Role::Parameter, shape)];
      state.shard_dim = dim;
      if (dim >= 0) // padded
        state.local_shape[dim] = (shape[dim] + ranks - 1) / ranks;
      StateMap map(builder.plan);
      ASSERT_EQ(map.memories().size(), 1u);
      const StateMemory &memory = map.memories()[0];
      EXPECT_EQ(memory.state, 0u);
      ASSERT_EQ(memory.tensors.size(), 1u);
      std::vector<int> expected(30, dim < 0 ? ranks : 1);
      EXPECT_EQ(holders(builder.plan, map, memory.tensors[0],
                        *plan::numElements(state.local_shape)),
                expected);
    }
}

TEST(StateMap, ReplicasHoldTheSame) {
  PlanBuilder builder(4);
  plan::PlanT &plan = builder.plan;
  plan.mesh.clear();
  for (uint32_t size : {2, 2}) {
    plan.mesh.push_back(std::make_unique<plan::MeshDimT>());
    plan.mesh.back()->size = size;
  }
  plan.mesh.front()->role = plan::AxisRole::Replicate;
  plan::StateT &state =
      *plan.states[builder.state("w", plan::Role::Parameter, {3, 2})];
  state.shard_dim = 0;
  state.local_shape = {2, 2};
  StateMap map(plan);
  const NamedState &tensor = map.memories()[0].tensors[0];
  for (int rank : {0, 2}) {
    auto runs = map.part(tensor, rank).runs();
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].whole, 0);
    EXPECT_EQ(runs[0].count, 4);
  }
  for (int rank : {1, 3}) {
    auto runs = map.part(tensor, rank).runs();
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].whole, 4);
    EXPECT_EQ(runs[0].local, 0);
    EXPECT_EQ(runs[0].count, 2); // and a row of padding
  }
}

TEST(StateMap, TensorsHaveTheNamesOfFiles) {
  PlanBuilder builder(1);
  builder.state("w", plan::Role::Parameter, {2});
  builder.state("mean", plan::Role::Buffer, {2});
  builder.plan.states.back()->aliases = {"same"};
  builder.state("mask", plan::Role::Buffer, {2});
  builder.plan.states.back()->persistent = false;
  StateMap map(builder.plan);
  std::vector<std::string> names;
  for (const StateMemory &memory : map.memories())
    for (const NamedState &tensor : memory.tensors)
      names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"w", "mean", "fsdp.buffer.mask"}));
  EXPECT_EQ(map.memories()[1].tensors[0].aliases,
            (std::vector<std::string>{"same"}));
}
