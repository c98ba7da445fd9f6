// Tests that a throttled communicator takes the time that the network would,
// and leaves the CPU free meanwhile.
#include "comm/ThrottledCommunicator.h"

#include "RankThreads.h"
#include "ThreadRanks.h"

#include <algorithm>
#include <ctime>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;
using Clock = Communicator::Clock;

namespace {

constexpr size_t count = 5'000'000;
/// On the wire for 50 ms between two ranks: a rank sends count bytes.
constexpr Wire wire{100e6, 0};

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double cpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

/// The least of three: another process may have the CPU meanwhile.
double leastOf(const std::function<double()> &measure) {
  return std::min({measure(), measure(), measure()});
}

void onTwoRanks(const Body &body, Wire wire = ::wire) {
  ThreadRanks ranks(2);
  for (const std::string &error : onRanks(
           2,
           [&](int r) {
             return createThrottledCommunicator(ranks.connect(r), wire);
           },
           body))
    EXPECT_EQ(error, "");
}

/// Buffers in an arena, and transfers between them.
struct Gathers {
  explicit Gathers(Communicator &c) : c(c) {
    ArenaLayout layout;
    layout.arenaBytes = 8 * count;
    memory = c.allocate(layout);
  }
  uint64_t start(unsigned channel, int which = 0) {
    return c.start({plan::CollectiveKind::AllGather, memory->arena(),
                    memory->arena() + (1 + 2 * which) * count, count,
                    plan::DType::UInt8, 1, channel});
  }
  Communicator &c;
  std::unique_ptr<ArenaMemory> memory;
};

} // namespace

TEST(Throttled, ATransferTakesItsTimeAndNoCpu) {
  onTwoRanks([](Communicator &c) {
    Gathers gathers(c);
    c.finish(gathers.start(0));
    auto begin = Clock::now();
    uint64_t ticket = gathers.start(0);
    EXPECT_LT(secondsSince(begin), 0.02);
    double cpu = cpuSeconds();
    c.finish(ticket);
    EXPECT_GE(secondsSince(begin), 0.0499);
    EXPECT_LT(cpuSeconds() - cpu, 0.025);
    c.barrier();
  });
}

TEST(Throttled, ComputeHidesIt) {
  onTwoRanks([](Communicator &c) {
    Gathers gathers(c);
    double waited = leastOf([&] {
      c.barrier();
      uint64_t ticket = gathers.start(0);
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      auto begin = Clock::now();
      c.finish(ticket);
      return secondsSince(begin);
    });
    EXPECT_LT(waited, 0.03);
    c.barrier();
  });
}

TEST(Throttled, OneChannelQueuesTwoDoNot) {
  onTwoRanks([](Communicator &c) {
    Gathers gathers(c);
    auto timeOf = [&](unsigned second) {
      c.barrier();
      auto begin = Clock::now();
      uint64_t a = gathers.start(0, 0), b = gathers.start(second, 1);
      c.finish(a);
      c.finish(b);
      return secondsSince(begin);
    };
    EXPECT_GE(leastOf([&] { return timeOf(0); }), 0.0999);
    double parallel = leastOf([&] { return timeOf(1); });
    EXPECT_GE(parallel, 0.0499);
    EXPECT_LT(parallel, 0.095);
    c.barrier();
  });
}

TEST(Throttled, ItBeginsWhenTheLastRankStarts) {
  onTwoRanks([](Communicator &c) {
    Gathers gathers(c);
    c.barrier();
    auto begin = Clock::now();
    if (c.rank() == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
    c.finish(gathers.start(0));
    EXPECT_GE(secondsSince(begin), 0.0899);
    c.barrier();
  });
}

TEST(Throttled, LatencyCountsWithoutBytes) {
  onTwoRanks(
      [](Communicator &c) {
        auto begin = Clock::now();
        for (int i = 0; i < 10; ++i)
          c.barrier();
        EXPECT_GE(secondsSince(begin), 0.0199);
      },
      {1e12, 2e-3});
}
