// Tests that ranges with a stride are what their bytes are, one by one, and
// that nobody walks through those of a large bucket.
#include "plan/check/StridedRanges.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace fsdp::plan;

namespace {

const PlanT plan;
CheckingBudget budget(plan);

using Bytes = std::multiset<uint64_t>;

Bytes bytesOf(const StridedRange &range) {
  Bytes bytes;
  range.forEachBlock([&](uint64_t offset, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      bytes.insert(offset + i);
  });
  return bytes;
}

std::set<uint64_t> distinct(const std::vector<StridedRange> &ranges) {
  std::set<uint64_t> all;
  for (const StridedRange &range : ranges)
    for (uint64_t byte : bytesOf(range))
      all.insert(byte);
  return all;
}

/// Inside a value of `size`; mostly one that repeats in it.
StridedRange randomRange(std::mt19937 &random, uint64_t size) {
  uint64_t stride = random() % 3 ? 16 : 8, blocks = size / stride;
  uint64_t offset = random() % stride, bytes = 1 + random() % (stride - offset);
  if (random() % 4 == 0)
    return {offset, bytes, 1, 0};
  if (random() % 4 == 0)
    blocks = 1 + random() % blocks;
  return {offset, bytes, blocks, stride};
}

} // namespace

TEST(StridedRanges, AUnionHasTheBytesOfAll) {
  std::mt19937 random(0);
  for (int round = 0; round < 2000; ++round) {
    std::vector<StridedRange> ranges;
    for (unsigned i = random() % 6; i; --i)
      ranges.push_back(randomRange(random, 64));
    std::vector<StridedRange> joined = unionOf(ranges);
    EXPECT_LE(joined.size(), ranges.size());
    EXPECT_EQ(distinct(joined), distinct(ranges));
  }
}

TEST(StridedRanges, AStrideThatIsCoveredIsOneBlock) {
  auto joined =
      unionOf({{48, 16, 1000, 64}, {0, 32, 1000, 64}, {32, 16, 1000, 64}});
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].blocks, 1u);
  EXPECT_EQ(joined[0].bytes, 64'000u);
}

TEST(StridedRanges, EachByteIsTakenOnce) {
  std::mt19937 random(1);
  const uint64_t size = 64;
  for (int round = 0; round < 2000; ++round) {
    TakenBytes taken;
    std::set<uint64_t> gone;
    for (unsigned i = random() % 6; i; --i) {
      StridedRange range = randomRange(random, size);
      Bytes bytes = bytesOf(range);
      bool isNew = std::none_of(bytes.begin(), bytes.end(),
                                [&](uint64_t b) { return gone.count(b); });
      ASSERT_EQ(taken.take(range, size, budget), isNew);
      if (!isNew)
        break;
      gone.insert(bytes.begin(), bytes.end());
      EXPECT_TRUE(taken.has(range, size, budget));
      StridedRange other = randomRange(random, size);
      Bytes asked = bytesOf(other);
      bool allGone = std::all_of(asked.begin(), asked.end(),
                                 [&](uint64_t b) { return gone.count(b); });
      if (!allGone) {
        EXPECT_FALSE(taken.has(other, size, budget));
      }
    }
  }
}

TEST(StridedRanges, NobodyWalksThroughALargeBucket) {
  // A billion blocks: to look at each would take minutes.
  const uint64_t blocks = uint64_t(1) << 30, stride = 256;
  TakenBytes taken;
  for (uint64_t offset = 0; offset < stride; offset += 64) {
    StridedRange range(offset, 48, blocks, stride);
    EXPECT_TRUE(taken.take(range, blocks * stride, budget));
    EXPECT_TRUE(taken.has(range, blocks * stride, budget));
  }
  EXPECT_FALSE(taken.take({16, 64, blocks, stride}, blocks * stride, budget));
  // What does not repeat alike is refused, not walked through.
  EXPECT_THROW(taken.take({0, 16, blocks / 2, 512}, blocks * stride, budget),
               Finding);
}
