// Tests which commands happen before others, and the history of bytes.
#include "fsdp/Analysis/CommandOrder.h"

#include <gtest/gtest.h>
#include <random>

using namespace fsdp;

TEST(CommandOrder, AStreamRunsInOrder) {
  CommandOrder order;
  Moment first = order.launch(0), second = order.launch(0);
  EXPECT_TRUE(order.follows(0, first));
  EXPECT_TRUE(order.follows(0, second));
  EXPECT_FALSE(order.follows(1, first));
}

TEST(CommandOrder, AWaitFollowsWhatStandsInFrontOfTheRecord) {
  CommandOrder order;
  Moment before = order.launch(0);
  ASSERT_TRUE(order.record(7, 0));
  Moment behind = order.launch(0);
  EXPECT_FALSE(order.wait(8, 1));
  ASSERT_TRUE(order.wait(7, 1));
  EXPECT_TRUE(order.follows(1, before));
  EXPECT_FALSE(order.follows(1, behind));
  EXPECT_FALSE(order.record(7, 1)) << "an event is recorded once";
}

TEST(CommandOrder, ACollectiveTellsOfOtherRanks) {
  CommandOrder order;
  Moment start{0, 0}, before = order.launch(0);
  EXPECT_FALSE(order.followsEverywhere(0, start));
  order.record(0, 0);
  order.wait(0, 1);
  order.meet(1);
  Moment collective = order.launch(1);
  EXPECT_TRUE(order.followsEverywhere(1, start));
  EXPECT_TRUE(order.followsEverywhere(1, before));
  EXPECT_FALSE(order.followsEverywhere(1, collective));
  EXPECT_FALSE(order.followsEverywhere(0, before));
  order.record(1, 1);
  order.wait(1, 0);
  EXPECT_TRUE(order.followsEverywhere(0, before));
}

TEST(CommandOrder, StreamsRunOutAtTheEnd) {
  CommandOrder order;
  Moment other = order.launch(2);
  order.drain();
  EXPECT_TRUE(order.follows(0, other));
}

TEST(ByteTimeline, AgreesWithOneEntryPerByte) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    ByteTimeline timeline;
    std::vector<ByteTimeline::Entry> bytes(64);
    for (uint32_t i = 1; i < 60; ++i) {
      uint64_t begin = random() % 64, end = begin + random() % (65 - begin);
      Moment moment{uint32_t(random() % kNumStreams), i};
      if (random() % 2) {
        int64_t owner = random() % 3;
        timeline.write(begin, end, owner, moment);
        for (uint64_t b = begin; b < end; ++b)
          bytes[b] = {owner, moment, {}};
      } else {
        timeline.read(begin, end, moment);
        for (uint64_t b = begin; b < end; ++b)
          if (bytes[b].owner != ByteTimeline::nobody)
            bytes[b].read[moment.stream] = i;
      }
      std::vector<ByteTimeline::Entry> seen, expected;
      auto add = [](auto &list, const ByteTimeline::Entry &entry) {
        if (list.empty() || !(list.back() == entry))
          list.push_back(entry);
      };
      (void)timeline.visit(0, 64, [&](const ByteTimeline::Entry &entry) {
        add(seen, entry);
        return mlir::success();
      });
      for (const ByteTimeline::Entry &entry : bytes)
        add(expected, entry);
      ASSERT_TRUE(seen == expected);
    }
  }
}
