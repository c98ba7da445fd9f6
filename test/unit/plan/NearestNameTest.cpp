// Tests that errors about names name the one that was probably meant.
#include "plan/NearestName.h"

#include <gtest/gtest.h>

using namespace fsdp;

TEST(NearestName, CountsEdits) {
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("abc", "abc"), 0u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("mehs", "mesh"), 1u) << "neighbours are swapped";
  EXPECT_EQ(editDistance("ca", "abc"), 3u);
}

TEST(NearestName, NamesTheNearest) {
  std::vector<std::string> known = {"--steps", "--seed", "--save"};
  EXPECT_EQ(nearestHint("--stpes", known), "; the nearest is --steps");
  EXPECT_EQ(nearestHint("--sead", known), "; the nearest is --seed");
}

TEST(NearestName, NamesOneThatBeginsLikeIt) {
  std::vector<std::string> known = {"mesh", "prefetch-forward", "streams"};
  EXPECT_EQ(nearestHint("prefech", known), "; the nearest is prefetch-forward");
  EXPECT_EQ(nearestHint("mehs", known), "; the nearest is mesh");
  EXPECT_EQ(nearestHint("metric", known), "");
}

TEST(NearestName, IsSilentWhereNoneIsNear) {
  EXPECT_EQ(nearestHint("Foo", {"Linear", "Net"}), "");
  EXPECT_EQ(nearestHint("x", {}), "");
}
