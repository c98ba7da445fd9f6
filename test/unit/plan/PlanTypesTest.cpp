// Tests what is computed of shapes that nobody has checked yet.
#include "plan/PlanTypes.h"

#include <cstdint>
#include <gtest/gtest.h>
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
