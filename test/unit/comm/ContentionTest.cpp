// Tests how a rank finds out that others want its CPU.
#include "comm/Contention.h"
#include "comm/ControlGroup.h"

#include <fstream>
#include <gtest/gtest.h>
#include <thread>

using namespace fsdp;
using namespace std::chrono_literals;

TEST(Contention, IsMoreThanATenthOfTheTimeWithoutACpu) {
  Contention contention;
  Contention::Clock::time_point begin{1h};
  EXPECT_FALSE(contention.look(begin, 5s)) << "what was before is not counted";
  EXPECT_FALSE(contention.look(begin + 100ms, 5s + 10ms));
  EXPECT_TRUE(contention.look(begin + 200ms, 5s + 21ms));
  EXPECT_FALSE(contention.look(begin + 300ms, 5s + 21ms));
}

TEST(Contention, IsLookedForNowAndThen) {
  Contention contention;
  Contention::Clock::time_point begin{1h};
  EXPECT_TRUE(contention.isDue(begin));
  contention.look(begin, 0s);
  EXPECT_FALSE(contention.isDue(begin + 1ms));
  EXPECT_TRUE(contention.isDue(begin + 1s));
}

TEST(Contention, IsOfOneThread) {
  // Elsewhere threads may wait for as long as they like.
  std::chrono::nanoseconds here = timeWithoutCpu();
  std::chrono::nanoseconds first = {}, second = {};
  std::thread([&] {
    first = timeWithoutCpu();
    second = timeWithoutCpu();
  }).join();
  EXPECT_LE(first, second);
  EXPECT_LE(here, timeWithoutCpu());
}

TEST(ControlGroup, NumbersEndWhereWordsBegin) {
  std::string file = testing::TempDir() + "cpu.max";
  auto read = [&](const char *text) {
    std::ofstream(file) << text;
    return numbersOf(file);
  };
  EXPECT_EQ(read("150000 100000\n"), (std::vector<double>{150000, 100000}));
  EXPECT_EQ(read("max 100000\n"), std::vector<double>());
  std::filesystem::remove(file);
  EXPECT_EQ(numbersOf(file), std::vector<double>());
}

TEST(ControlGroup, ThereIsACpuToRunOn) {
  cpu_set_t cpus = allowedCpus();
  EXPECT_GT(CPU_COUNT(&cpus), 0);
  EXPECT_GE(cpuQuota(), 0);
}
