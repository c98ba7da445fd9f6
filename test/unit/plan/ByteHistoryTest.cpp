// Tests that byte ranges know their last writer and readers, against one entry
// per byte.
#include "plan/check/ByteHistory.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace fsdp::plan;

TEST(ByteHistory, AgreesWithOneEntryPerByte) {
  constexpr uint64_t size = 64;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    ByteHistory history;
    std::vector<ByteHistory::Entry> bytes(size);
    for (uint32_t round = 1; round < 60; ++round) {
      uint64_t begin = random() % size;
      uint64_t end = std::min(begin + random() % 20, size);
      Moment when{static_cast<uint32_t>(random() % 3), round / 4};
      int64_t owner = random() % 4;
      bool write = random() % 2;
      write ? history.write(begin, end, owner, when)
            : history.read(begin, end, when);
      for (uint64_t i = begin; i < end; ++i)
        if (write)
          bytes[i] = {owner, when, {}};
        else
          bytes[i].read[when.stream] = when.index;
      for (uint64_t i = 0; i < size; ++i)
        history.visit(i, i + 1, [&](const ByteHistory::Entry &entry) {
          EXPECT_EQ(entry, bytes[i]) << "byte " << i;
        });
    }
    // Like neighbours are one range.
    size_t ranges = 0, expected = 1;
    history.visit(0, size, [&](const ByteHistory::Entry &) { ++ranges; });
    for (uint64_t i = 1; i < size; ++i)
      expected += !(bytes[i] == bytes[i - 1]);
    EXPECT_EQ(ranges, expected);
  }
}
