// Tests that vector clocks know what a search through streams, events and
// collectives finds, on random programs.
#include "plan/check/HappensBefore.h"

#include <gtest/gtest.h>
#include <optional>
#include <random>

using namespace fsdp::plan;

namespace {

struct Step {
  uint32_t stream;
  std::optional<uint32_t> waits, records; // events
  bool meets = false;
};

std::vector<Step> makeProgram(std::mt19937 &random) {
  std::vector<Step> program(1 + random() % 30);
  uint32_t events = 0;
  for (Step &step : program) {
    step.stream = random() % 4;
    if (random() % 3 == 0)
      step.records = events++;
    else if (events && random() % 2)
      step.waits = random() % events;
    else
      step.meets = random() % 3 == 0;
  }
  return program;
}

/// What has happened on a rank when a command of it runs. A command of rank r
/// is number r * size + i; one that meets is joined by the start of the same
/// one on the other rank: what stands before it there.
std::vector<std::vector<bool>> search(const std::vector<Step> &program) {
  size_t size = program.size();
  std::vector<std::vector<bool>> past(2 * size, std::vector<bool>(2 * size));
  auto join = [&](size_t to, size_t from, bool itself) {
    for (size_t k = 0; k < 2 * size; ++k)
      past[to][k] = past[to][k] || (past[from][k] && (itself || k != from));
  };
  for (size_t i = 0; i < size; ++i) {
    for (size_t rank : {0, 1})
      for (size_t k = 0; k < i; ++k) {
        bool before =
            program[k].stream == program[i].stream ||
            (program[i].waits && program[k].records == program[i].waits);
        if (before)
          join(rank * size + i, rank * size + k, true);
      }
    past[i][i] = past[size + i][size + i] = true;
    if (program[i].meets) {
      join(i, size + i, false);
      join(size + i, i, false);
    }
  }
  return past;
}

} // namespace

TEST(HappensBefore, AgreesWithASearch) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    std::vector<Step> program = makeProgram(random);
    std::vector<std::vector<bool>> past = search(program);
    HappensBefore order;
    std::vector<Moment> moments;
    for (size_t i = 0; i < program.size(); ++i) {
      const Step &step = program[i];
      moments.push_back(order.launch(step.stream, i));
      EXPECT_TRUE(!step.waits || order.wait(*step.waits, step.stream));
      EXPECT_TRUE(!step.records || order.record(*step.records, step.stream));
      if (step.meets)
        order.meet(step.stream);
      const HappensBefore::Knowledge &known = order[step.stream];
      for (size_t k = 0; k <= i; ++k) {
        EXPECT_EQ(known.here.covers(moments[k]), past[i][k])
            << "seed " << seed << ", " << k << " before " << i;
        EXPECT_EQ(known.everywhere.covers(moments[k]),
                  past[i][program.size() + k])
            << "seed " << seed << ", " << k << " of another rank before " << i;
        EXPECT_EQ(order.command(moments[k]), k);
      }
    }
  }
}

TEST(HappensBefore, EventsAreRecordedOnceAndFirst) {
  HappensBefore order;
  order.launch(0, 0);
  EXPECT_FALSE(order.wait(7, 0));
  EXPECT_TRUE(order.record(7, 0));
  EXPECT_FALSE(order.record(7, 0));
}

TEST(HappensBefore, StreamsRunOutAtTheEnd) {
  HappensBefore order;
  Moment one = order.launch(1, 0), other = order.launch(2, 1);
  order.drain();
  for (uint32_t stream = 0; stream < maxStreams; ++stream)
    EXPECT_TRUE(order[stream].here.covers(one) &&
                order[stream].here.covers(other));
}
