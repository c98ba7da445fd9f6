// Tests a trace of runs that are given by hand: JSON whatever names are, and
// transfers that were handed over while others were under way.
#include "trace/TraceFile.h"

#include "PlanBuilder.h"
#include "cost/Cluster.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace fsdp;
using namespace fsdp::test;
using namespace fsdp::trace;

namespace {

struct Fixture : testing::Test {
  Fixture() {
    for (uint32_t c = 0; c < step().commands.size(); ++c)
      if (step().commands[c]->operation.AsCollective())
        collectives.push_back(c);
  }
  plan::ProgramT &step() {
    return *plan.programs[plan::findProgram(plan, "step")];
  }

  nlohmann::json write(std::vector<Span> spans) {
    ProgramRun run;
    run.program = plan::findProgram(plan, "step");
    run.step = 3;
    run.begin = 1000;
    run.end = 9000;
    run.spans = std::move(spans);
    return nlohmann::json::parse(traceText(plan, cost::findCluster("local"),
                                           {{"rank \"0\"\n", {run}}},
                                           {{"why", "\"tests\""}}));
  }

  plan::PlanT plan = std::move(linearRegression(2, 3, 5, 4)->finish());
  std::vector<uint32_t> collectives;
};

} // namespace

TEST_F(Fixture, NamesMayBeAnything) {
  step().commands[collectives[0]]->location = "a\"b\\c\xff\n\u00e9";
  nlohmann::json trace =
      write({{Span::Command, 0, collectives[0], collectives[0], 2000, 3500}});
  EXPECT_EQ(trace["otherData"]["why"], "tests");
  bool found = false;
  for (const auto &event : trace["traceEvents"])
    if (event["ph"] == "X" && event["cat"] == "collective") {
      found = true;
      EXPECT_EQ(event["args"]["module"], "a\"b\\c\uFFFD\n\u00e9");
      // Micros of the file, which begins with the run.
      EXPECT_EQ(event["ts"], 1.0);
      EXPECT_EQ(event["dur"], 1.5);
    }
  EXPECT_TRUE(found);
}

TEST_F(Fixture, TransfersUnderWayTogetherHaveTracksOfTheirOwn) {
  ASSERT_GE(collectives.size(), 2u);
  nlohmann::json trace =
      write({{Span::Command, 1, collectives[0], collectives[0], 2000, 5000},
             {Span::Command, 1, collectives[1], collectives[1], 3000, 6000}});
  std::vector<nlohmann::json> found;
  for (const auto &event : trace["traceEvents"])
    if (event["ph"] == "X" && event["cat"] == "collective")
      found.push_back(event);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found[0]["tid"], found[1]["tid"]);
  EXPECT_EQ(found[1]["ts"], 2.0);
  EXPECT_EQ(found[1]["dur"], 3.0);
}
