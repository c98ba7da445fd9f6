// Tests that arenas are aligned, zeroed and guarded.
#include "device/HostMemory.h"

#include "Error.h"
#include "ErrorKind.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fsdp;

TEST(HostMemory, IsAlignedAndZero) {
  for (uint64_t guard : {0, 4096}) {
    HostMemory memory(1000, guard);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
    EXPECT_EQ(std::count(memory.data(), memory.data() + 1000, 0), 1000);
  }
}

TEST(HostMemory, GuardsNotice) {
  HostMemory memory(1000, 64);
  std::fill(memory.data(), memory.data() + 1000, 1);
  EXPECT_TRUE(memory.guardsIntact());
  memory.data()[1000] = 1;
  EXPECT_FALSE(memory.guardsIntact());
  HostMemory other(8, 64);
  other.data()[-1] = 1;
  EXPECT_FALSE(other.guardsIntact());
}

TEST(HostMemory, WhatCannotBeHadIsAnError) {
  EXPECT_EQ(test::identifierThrownBy([&] { HostMemory(uint64_t(1) << 60, 0); }),
            "FSDP-E0002");
  HostMemory none(0, 0);
  EXPECT_EQ(none.size(), 0u);
}
