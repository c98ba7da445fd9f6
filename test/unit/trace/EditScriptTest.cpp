// Tests that a longest common subsequence is one, and a longest.
#include "trace/EditScript.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace fsdp::trace;

namespace {

using List = std::vector<std::string>;

/// By the definition.
size_t lengthOfLongest(const List &a, const List &b) {
  std::vector<std::vector<size_t>> best(a.size() + 1,
                                        std::vector<size_t>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j)
      best[i][j] = a[i - 1] == b[j - 1]
                       ? best[i - 1][j - 1] + 1
                       : std::max(best[i - 1][j], best[i][j - 1]);
  return best[a.size()][b.size()];
}

List draw(std::minstd_rand &random, unsigned letters) {
  List list(random() % 12);
  for (std::string &entry : list)
    entry = std::string(1, char('a' + random() % letters));
  return list;
}

} // namespace

TEST(EditScript, KeepsALongestCommonSubsequence) {
  std::minstd_rand random(1);
  for (int i = 0; i < 3000; ++i) {
    List a = draw(random, 1 + i % 5), b = draw(random, 1 + i % 5);
    auto kept = commonSubsequence(a, b, a.size() + b.size());
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->size(), lengthOfLongest(a, b));
    for (size_t k = 0; k < kept->size(); ++k) {
      ASSERT_EQ(a.at((*kept)[k].first), b.at((*kept)[k].second));
      if (k) {
        ASSERT_LT((*kept)[k - 1].first, (*kept)[k].first);
        ASSERT_LT((*kept)[k - 1].second, (*kept)[k].second);
      }
    }
  }
}

TEST(EditScript, GivesUpBeyondTheLimit) {
  EXPECT_TRUE(commonSubsequence({"a", "b"}, {"a", "c"}, 2));
  EXPECT_FALSE(commonSubsequence({"a", "b"}, {"a", "c"}, 1));
}
