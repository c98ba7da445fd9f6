// Tests that the death of a rank, however and whenever it comes, is an error of
// the others within moments, which names the rank, and that nothing is left.
#include "RankProcesses.h"

#include <csignal>
#include <gtest/gtest.h>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr size_t count = 20'000;

/// Talks in every way, for ever. Whether it learns that rank 1 is gone.
bool talkUntilRank1Dies(Communicator &c) {
  std::vector<float> anywhere(count * c.size(), 1);
  try {
    for (;;) {
      ArenaLayout layout;
      layout.arenaBytes = 2 * anywhere.size() * sizeof(float);
      auto memory = c.allocate(layout);
      auto from = reinterpret_cast<float *>(memory->arena());
      for (int i = 0; i < 10; ++i) {
        uint64_t gather =
            c.start({plan::CollectiveKind::AllGather, from,
                     from + anywhere.size(), count, plan::DType::Float32});
        uint64_t reduce = c.start({plan::CollectiveKind::ReduceScatter, from,
                                   from, count, plan::DType::Float32,
                                   /*divisor=*/3, /*channel=*/1});
        c.finish(reduce);
        c.finish(gather);
        c.allReduce(anywhere.data(), anywhere.data(), count,
                    plan::DType::Float32);
      }
    }
  } catch (const PeerFailure &failure) {
    c.abort(failure.what());
    return failure.kind == E::PeerFailed &&
           std::string(failure.what()).find("rank 1") != std::string::npos;
  }
}

} // namespace

TEST(Death, AtAnyMomentOfACollective) {
  for (int i = 0; i < 12; ++i) {
    TemporaryFolder folder;
    RankProcesses ranks(3, [&](Communicator &c) {
      c.barrier();
      if (c.rank() == 1)
        folder.write("started", "");
      return talkUntilRank1Dies(c);
    });
    while (!std::filesystem::exists(folder / "started"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(700 * i));
    kill(ranks.process(1), SIGKILL);
    std::vector<int> statuses = ranks.statuses();
    EXPECT_EQ(statuses[0], 0) << i;
    EXPECT_EQ(WTERMSIG(statuses[1]), SIGKILL);
    EXPECT_EQ(statuses[2], 0) << i;
  }
}

TEST(Death, WhileTheOthersSleep) {
  RankProcesses ranks(3, [&](Communicator &c) {
    c.barrier();
    if (c.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      raise(SIGKILL);
    }
    return talkUntilRank1Dies(c);
  });
  std::vector<int> statuses = ranks.statuses();
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[2], 0);
}

/// Between the two words that ranks say to each other when they connect.
TEST(Death, WhileRanksConnect) {
  TemporaryFolder folder;
  auto connect = [&](int rank) {
    auto store = c10::make_intrusive<c10d::FileStore>(folder / "store", 2);
    return createSharedMemoryCommunicator(*store, rank, 2,
                                          std::chrono::seconds(30));
  };
  pid_t one = inProcess([&] { return connect(1) != nullptr; });
  {
    auto store = c10::make_intrusive<c10d::FileStore>(folder / "store", 2);
    while (!store->check({"segment/1"}))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(one, SIGKILL);
  try {
    connect(0);
    FAIL();
  } catch (const PeerFailure &failure) {
    EXPECT_STREQ(failure.what(), "rank 1 ended without a word");
  }
  EXPECT_EQ(WTERMSIG(statusOf(one)), SIGKILL);
}

/// What a rank has given before it ended is no failure.
TEST(Death, ARankMayEndFirst) {
  RankProcesses ranks(2, [](Communicator &c) {
    if (c.rank() == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    int64_t one = 1;
    c.allReduce(&one, &one, 1, plan::DType::Int64);
    return one == 2;
  });
  EXPECT_EQ(ranks.statuses(), std::vector<int>(2, 0));
}
