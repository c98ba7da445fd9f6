// Tests what a program's memory is for while it runs.
#include "trace/MemoryByKind.h"

#include "PlanBuilder.h"
#include "plan/check/LiveRanges.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;
using namespace fsdp::trace;

TEST(MemoryByKind, PeakIsTheMostBytesInUse) {
  for (unsigned ranks : {1u, 2u}) {
    plan::PlanT plan = std::move(linearRegression(ranks, 30, 50, 8)->finish());
    for (const auto &program : plan.programs) {
      uint64_t most = 0;
      for (const MemoryUse &use :
           memoryByKind(plan, *program, plan::deviceArena))
        most = std::max(most, totalOf(use));
      EXPECT_EQ(most, plan::liveBytes(plan, *program));
    }
  }
}

TEST(MemoryByKind, NamesWhatValuesAreFor) {
  plan::PlanT plan = std::move(linearRegression(2, 3, 5, 4)->finish());
  const plan::ProgramT &step =
      *plan.programs.at(plan::findProgram(plan, "step"));
  std::vector<MemoryKind> kinds = kindsOf(plan, step);
  auto kind = [&](int value) { return kinds.at(value); };
  for (const auto &input : step.inputs)
    EXPECT_EQ(kind(input->value), MemoryKind::Inputs);
  bool gathers = false, reduces = false, updates = false;
  for (const auto &command : step.commands) {
    if (const auto *collective = command->operation.AsCollective()) {
      bool isGather = collective->kind == plan::CollectiveKind::AllGather;
      (isGather ? gathers : reduces) = true;
      EXPECT_EQ(kind(collective->destination),
                isGather ? MemoryKind::Gathered : MemoryKind::Gradients);
    }
    if (const auto *update = command->operation.AsUpdate()) {
      updates = true;
      EXPECT_EQ(kind(update->gradient), MemoryKind::Gradients);
    }
  }
  EXPECT_TRUE(gathers && reduces && updates);
  for (size_t v = 0; v < step.values.size(); ++v)
    if (step.values[v]->state >= 0) {
      EXPECT_EQ(kind(v), MemoryKind::Parameters);
    }
}
