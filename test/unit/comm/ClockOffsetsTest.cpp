// Tests that the clocks of other hosts are found, and that bytes of any number
// reach one rank.
#include "comm/ClockOffsets.h"
#include "comm/Gather.h"

#include "ThreadRanks.h"

#include <gtest/gtest.h>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr int ranks = 4;

template <typename Body> void onRanks(Body body) {
  ThreadRanks group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(rank, *group.connect(rank)); });
  for (std::thread &thread : threads)
    thread.join();
}

/// Offsets between hosts whose clocks are so far ahead.
std::vector<ClockOffset> find(const std::vector<uint64_t> &hosts,
                              const std::vector<int64_t> &ahead) {
  std::vector<ClockOffset> found;
  onRanks([&](int rank, Communicator &communicator) {
    HostClock clock = {hosts[rank],
                       [&, rank] { return hostClock().now() + ahead[rank]; }};
    auto mine = clockOffsets(communicator, clock);
    if (rank == 2)
      found = mine;
  });
  return found;
}

} // namespace

TEST(ClockOffsets, OneHostHasOneClock) {
  HostClock mine = hostClock();
  EXPECT_NE(mine.host, 0u);
  EXPECT_EQ(mine.host, hostClock().host);
  for (const ClockOffset &offset : find(std::vector<uint64_t>(ranks, mine.host),
                                        std::vector<int64_t>(ranks))) {
    EXPECT_EQ(offset.nanoseconds, 0);
    EXPECT_EQ(offset.uncertainty, 0);
  }
}

TEST(ClockOffsets, OtherHostsAreBounded) {
  std::vector<int64_t> ahead = {0, 0, 7'000'000'000, -3'000'000'000'000};
  std::vector<ClockOffset> found = find({5, 5, 6, 0}, ahead);
  ASSERT_EQ(found.size(), size_t(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t error = found[rank].nanoseconds - ahead[rank];
    EXPECT_LE(std::abs(error), found[rank].uncertainty) << "rank " << rank;
    // As long as a gather takes: far below a second.
    EXPECT_LT(found[rank].uncertainty, 1'000'000'000);
    EXPECT_EQ(found[rank].uncertainty > 0, rank >= 2);
  }
}

TEST(ClockOffsets, AllBytesReachOneRank) {
  std::vector<std::vector<char>> sent(ranks), received;
  for (int rank = 0; rank < ranks; ++rank)
    for (int i = 0; i < rank * 50000; ++i)
      sent[rank].push_back(static_cast<char>(i * 31 + rank));
  onRanks([&](int rank, Communicator &communicator) {
    auto all = gatherBytes(communicator, sent[rank], 1);
    if (rank == 1)
      received = all;
    else
      EXPECT_TRUE(all.empty());
  });
  EXPECT_TRUE(received == sent);
}
