// Tests that byte ranges know their last writer, against one entry per byte.
#include "plan/ByteOwners.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

using fsdp::plan::ByteOwners;

TEST(ByteOwners, AgreesWithOneEntryPerByte) {
  constexpr uint64_t size = 64;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    ByteOwners owners;
    std::vector<int64_t> bytes(size, ByteOwners::nobody);
    for (int round = 0; round < 60; ++round) {
      uint64_t begin = random() % size, end = begin + random() % 20;
      end = std::min(end, size);
      int64_t owner = random() % 4;
      if (random() % 2) {
        owners.write(begin, end, owner);
        std::fill(bytes.begin() + begin, bytes.begin() + end, owner);
      }
      std::optional<int64_t> other, first;
      for (uint64_t i = end; i-- > begin;) {
        if (bytes[i] != owner)
          other = bytes[i];
        if (bytes[i] != ByteOwners::nobody)
          first = bytes[i];
      }
      EXPECT_EQ(owners.firstOther(begin, end, owner), other);
      EXPECT_EQ(owners.firstOwner(begin, end), first);
    }
  }
}
