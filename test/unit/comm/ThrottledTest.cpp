// Tests that a throttled communicator takes exactly the time that the network
// would, on a clock that the test moves, and leaves the CPU free meanwhile.
#include "comm/ThrottledCommunicator.h"

#include "ThreadRanks.h"

#include <ctime>
#include <gtest/gtest.h>

using namespace fsdp;
using Clock = Communicator::Clock;
using std::chrono::microseconds;

namespace {

/// Moves when it is told to, and while somebody sleeps.
struct TestClock : WireClock {
  Clock::time_point now() const override { return time; }
  void sleepUntil(Clock::time_point until) override {
    time = std::max(time, until);
  }
  Clock::time_point time;
};

/// Moves nothing, at once.
struct Instant : Communicator {
  explicit Instant(int ranks) : ranks(ranks) {}
  int rank() const override { return 0; }
  int size() const override { return ranks; }
  std::string transport() const override { return "nothing"; }
  uint64_t start(const Transfer &transfer) override {
    return numChannels * next++ + transfer.channel;
  }
  void finish(uint64_t transfer) override {}
  std::optional<Clock::time_point> startedByAll(uint64_t) const override {
    return lastStart;
  }
  void leave(const std::string &) override {}

  int ranks;
  uint64_t next = 0;
  /// Of whatever is finished next.
  std::optional<Clock::time_point> lastStart;
};

class Throttled : public testing::Test {
protected:
  void connect(int ranks, cost::Link link) {
    auto instant = std::make_unique<Instant>(ranks);
    inner = instant.get();
    c = createThrottledCommunicator(std::move(instant), link, clock);
  }
  /// `bytes` from each rank.
  uint64_t gather(size_t bytes, unsigned channel = 0) {
    return c->start({plan::CollectiveKind::AllGather, nullptr, nullptr, bytes,
                     plan::DType::UInt8, 1, channel});
  }
  void compute(microseconds time) { clock->time += time; }
  microseconds now() const {
    return std::chrono::duration_cast<microseconds>(
        clock->time.time_since_epoch());
  }

  std::shared_ptr<TestClock> clock = std::make_shared<TestClock>();
  Instant *inner = nullptr;
  std::unique_ptr<Communicator> c;
};

} // namespace

TEST_F(Throttled, TakesTheTimeOfARing) {
  using Kind = plan::CollectiveKind;
  connect(4, {1e9, 10e-6});
  // A whole buffer of 4 MB, of which a rank passes on three quarters, in three
  // steps.
  for (auto [kind, count, expected] :
       {std::tuple(Kind::AllGather, 500'000, 3030),
        std::tuple(Kind::ReduceScatter, 500'000, 3030),
        std::tuple(Kind::AllReduce, 2'000'000, 6060),
        std::tuple(Kind::AllToAll, 500'000, 3030),
        std::tuple(Kind::AllGather, 0, 30)}) {
    clock->time = {};
    connect(4, {1e9, 10e-6});
    c->finish(c->start({kind, nullptr, nullptr, static_cast<size_t>(count),
                        plan::DType::BFloat16}));
    EXPECT_EQ(now().count(), expected);
  }
}

TEST_F(Throttled, OneRankHasNoNetwork) {
  connect(1, {1e9, 10e-6});
  c->finish(gather(1'000'000));
  EXPECT_EQ(now().count(), 0);
}

TEST_F(Throttled, ComputeHidesIt) {
  connect(2, {1e9, 0});
  uint64_t ticket = gather(1'000'000);
  compute(microseconds(700));
  c->finish(ticket);
  EXPECT_EQ(now().count(), 1000);
  ticket = gather(1'000'000);
  compute(microseconds(1700));
  c->finish(ticket);
  EXPECT_EQ(now().count(), 2700);
}

TEST_F(Throttled, ATransferWaitsForTheOneBeforeItOnItsChannel) {
  connect(2, {1e9, 0});
  uint64_t a = gather(1'000'000), b = gather(1'000'000);
  c->finish(a);
  EXPECT_EQ(now().count(), 1000);
  c->finish(b);
  EXPECT_EQ(now().count(), 2000);
  // But not for the time between.
  compute(microseconds(500));
  c->finish(gather(1'000'000));
  EXPECT_EQ(now().count(), 3500);
}

TEST_F(Throttled, ChannelsDoNotWaitForEachOther) {
  connect(2, {1e9, 0});
  uint64_t a = gather(1'000'000, 0), b = gather(1'500'000, 1);
  c->finish(b);
  EXPECT_EQ(now().count(), 1500);
  c->finish(a);
  EXPECT_EQ(now().count(), 1500);
}

TEST_F(Throttled, BeginsWhenTheLastRankStarts) {
  connect(2, {1e9, 0});
  uint64_t ticket = gather(1'000'000);
  inner->lastStart = clock->time + microseconds(400);
  compute(microseconds(600));
  c->finish(ticket);
  EXPECT_EQ(now().count(), 1400);
}

TEST(ThrottledThreads, LeaveTheCpuToOthers) {
  test::ThreadRanks ranks(2);
  std::thread threads[2];
  for (int r = 0; r < 2; ++r)
    threads[r] = std::thread([&, r] {
      // 50 ms.
      auto c = createThrottledCommunicator(ranks.connect(r), {100e6, 0});
      ArenaLayout layout;
      layout.arenaBytes = 15'000'000;
      auto memory = c->allocate(layout);
      auto cpuSeconds = [] {
        timespec time;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return time.tv_sec + time.tv_nsec * 1e-9;
      };
      double cpu = cpuSeconds();
      auto begin = Clock::now();
      c->allGather(memory->arena(), memory->arena() + 5'000'000, 5'000'000,
                   plan::DType::UInt8);
      EXPECT_GE(Clock::now() - begin, microseconds(50'000));
      EXPECT_LT(cpuSeconds() - cpu, 0.025);
      c->barrier();
    });
  for (std::thread &thread : threads)
    thread.join();
}
