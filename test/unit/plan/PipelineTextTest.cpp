// Tests that a plan's options are read from the text of its pipelines.
#include "plan/PipelineText.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;

TEST(PipelineText, BracesInsideAValueBelongToIt) {
  auto options = pipelineOptions(
      R"(fsdp-shard{mesh=2 units=h\.[0-9]{2}},cse,fsdp-overlap{cluster=h100x8})");
  ASSERT_EQ(options.size(), 3u);
  EXPECT_EQ(options[1].pipeline, "fsdp-shard");
  EXPECT_EQ(options[1].name, "units");
  EXPECT_EQ(options[1].value, R"(h\.[0-9]{2})");
  EXPECT_EQ(options[2].pipeline, "fsdp-overlap");
  EXPECT_EQ(options[2].name, "cluster");
  EXPECT_EQ(options[2].value, "h100x8");
}

TEST(PipelineText, PassesWithoutOptionsHaveNone) {
  EXPECT_TRUE(pipelineOptions("").empty());
  EXPECT_TRUE(pipelineOptions("cse,canonicalize").empty());
}
