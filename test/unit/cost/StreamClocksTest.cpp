// Tests when commands run, of a gather beside compute that waits for it.
#include "cost/StreamClocks.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::cost;

namespace {
constexpr unsigned gathers = 1;
} // namespace

TEST(StreamClocks, WhatComputeDoesNotWaitForIsHidden) {
  StreamClocks clocks;
  double gathered = clocks.communicate(gathers, 3).end;
  clocks.run(plan::computeStream, 2);
  Interval waited = clocks.waitUntil(plan::computeStream, gathered);
  EXPECT_EQ(waited.begin, 2);
  EXPECT_EQ(waited.end, 3);
  clocks.run(plan::computeStream, 4);
  EXPECT_EQ(clocks.stepSeconds(), 7);
  EXPECT_EQ(clocks.communicationSeconds(), 3);
  EXPECT_EQ(clocks.exposedSeconds(), 1);
}

TEST(StreamClocks, WhatIsThroughIsNotWaitedFor) {
  StreamClocks clocks;
  clocks.run(plan::computeStream, 5);
  EXPECT_TRUE(clocks.waitUntil(plan::computeStream, 3).isEmpty());
  EXPECT_EQ(clocks.now(plan::computeStream), 5);
  EXPECT_EQ(clocks.exposedSeconds(), 0);
}

TEST(StreamClocks, ACollectiveOnTheComputeStreamIsExposed) {
  StreamClocks clocks;
  clocks.communicate(plan::computeStream, 2);
  EXPECT_EQ(clocks.exposedSeconds(), 2);
}

TEST(StreamClocks, AStepLastsUntilAllStreamsAreThrough) {
  StreamClocks clocks;
  clocks.run(plan::computeStream, 1);
  clocks.communicate(gathers, 4);
  EXPECT_EQ(clocks.stepSeconds(), 4);
  EXPECT_EQ(clocks.exposedSeconds(), 0);
}
