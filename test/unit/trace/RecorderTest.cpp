// Tests that runs are taken down, and arrive at another rank as they were.
#include "trace/Recorder.h"

#include "ErrorKind.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::trace;

static Clock::time_point at(int64_t nanoseconds) {
  return Clock::time_point(std::chrono::nanoseconds(nanoseconds));
}

TEST(Recorder, TakesDownRunsAlone) {
  Recorder recorder;
  recorder.add(Span::Command, 0, 1, 1, at(1), at(2)); // before the first
  recorder.beginRun(1, 7, 2);
  recorder.comeTo(3);
  recorder.add(Span::Command, plan::gatherStream, 3, recorder.current(), at(5),
               at(9));
  recorder.add(Span::Wait, plan::computeStream, nothing, 4, at(6), at(8));
  recorder.endRun();
  recorder.add(Span::Command, 0, 1, 1, at(10), at(11)); // behind it
  ASSERT_EQ(recorder.runs().size(), 1u);
  const ProgramRun &run = recorder.runs()[0];
  EXPECT_EQ(run.program, 1u);
  EXPECT_EQ(run.step, 7u);
  EXPECT_EQ(run.microBatch, 2u);
  EXPECT_LE(run.begin, run.end);
  ASSERT_EQ(run.spans.size(), 2u); // by stream
  EXPECT_EQ(run.spans[0].kind, Span::Wait);
  EXPECT_EQ(run.spans[1].command, 3u);
  EXPECT_EQ(run.spans[1].reached, 3u);
  EXPECT_EQ(run.spans[1].end - run.spans[1].begin, 4);
}

TEST(Recorder, RunsArriveAsTheyWere) {
  std::vector<ProgramRun> runs(3);
  runs[0] = {2, 5, 1, 100, 200, {{Span::Start, 1, 2, 3, 110, 120}}};
  runs[2] = {0, 6, 0, 300, 400, {{}, {Span::Command, 5, 6, 7, -8, 9}}};
  std::vector<char> bytes = packRuns(runs);
  std::vector<ProgramRun> arrived = unpackRuns(bytes);
  ASSERT_EQ(arrived.size(), runs.size());
  EXPECT_EQ(packRuns(arrived), bytes);
  EXPECT_EQ(arrived[0].spans[0].reached, 3u);
  EXPECT_EQ(arrived[2].spans[1].begin, -8);
  EXPECT_TRUE(unpackRuns({}).empty());
}

TEST(Recorder, HalfARunIsNone) {
  std::vector<ProgramRun> runs = {
      {2, 5, 1, 100, 200, {{Span::Start, 1, 2, 3, 110, 120}}}};
  std::vector<char> bytes = packRuns(runs);
  for (size_t size : {size_t(1), sizeof(int64_t), bytes.size() - 1})
    EXPECT_EQ(test::identifierThrownBy([&] {
                unpackRuns({bytes.begin(), bytes.begin() + size});
              }),
              "FSDP-E0809");
}
