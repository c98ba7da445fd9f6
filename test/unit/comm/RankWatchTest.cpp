// Tests that a rank which waits learns who keeps it: who is gone, who computes,
// and who waits itself; with and without an answer.
#include "comm/RankWatch.h"
#include "comm/PeerWatch.h"

#include "ErrorKind.h"
#include "RankProcesses.h"
#include "comm/GlooCommunicator.h"

#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// Of a rank that has started so many transfers of channel 1 and waits for one,
/// 0: none.
RankState standing(uint64_t started, uint64_t awaited) {
  RankState state;
  state.condition = RankState::Answers;
  state.host = "a";
  state.process = 7;
  state.position.emplace().step = 3;
  RankPosition::Channel &channel = state.position->channels[1];
  channel.started = started;
  channel.startedName = "all-gather of b";
  channel.startedAgo = 5;
  channel.awaited = awaited;
  channel.awaitedName = awaited ? "all-gather of b" : "";
  return state;
}

RankState in(RankState::Condition condition) {
  RankState state;
  state.condition = condition;
  return state;
}

const AwaitedTransfer fifth = {"all-gather of c", 1, 5, {0, 1, 4}};

std::vector<int> blamed(const std::vector<RankState> &states) {
  return findCulprits(0, fifth, states).ranks;
}

} // namespace

TEST(Culprits, WhoIsGoneIsNamedAlone) {
  EXPECT_EQ(blamed({standing(5, 5), in(RankState::Stopped), standing(4, 0),
                    standing(5, 5)}),
            std::vector<int>{1});
  EXPECT_EQ(blamed({standing(5, 5), standing(5, 5), in(RankState::Silent),
                    in(RankState::Ended)}),
            (std::vector<int>{2, 3}));
}

TEST(Culprits, WhoSaidWhyItLeftIsNamedBehindWhoCouldNot) {
  RankState spoke = in(RankState::Ended);
  spoke.lastWord = "rank 2 has kept rank 1 waiting";
  RankState here = standing(5, 5), late = standing(4, 0);
  EXPECT_EQ(blamed({here, spoke, in(RankState::Silent), here}),
            std::vector<int>{2});
  Culprits found = findCulprits(0, fifth, {here, spoke, late, here});
  EXPECT_EQ(found.ranks, std::vector<int>{1});
  EXPECT_EQ(found.reasons[0],
            "its process has failed: rank 2 has kept rank 1 waiting");
}

TEST(Culprits, WhoComputesIsNamedBeforeWhoWaits) {
  EXPECT_EQ(
      blamed({standing(5, 5), standing(4, 4), standing(4, 0), standing(5, 5)}),
      std::vector<int>{2});
  // It has come, but does not move its part.
  EXPECT_EQ(
      blamed({standing(5, 5), standing(5, 5), standing(5, 5), standing(5, 0)}),
      std::vector<int>{3});
  EXPECT_EQ(
      blamed({standing(5, 5), standing(4, 4), standing(5, 5), standing(5, 5)}),
      std::vector<int>{1});
}

TEST(Culprits, OnlyMembersOfItsGroupAreLate) {
  AwaitedTransfer pair = {"all-gather of c", 1, 5, {0, 2, 2}}; // 0 and 2
  EXPECT_EQ(findCulprits(0, pair,
                         {standing(5, 5), standing(4, 0), standing(4, 0),
                          standing(5, 5)})
                .ranks,
            std::vector<int>{2});
}

TEST(Culprits, NobodyWhereAllWait) {
  std::vector<RankState> all(4, standing(5, 5));
  EXPECT_TRUE(blamed(all).empty());
  std::string text = describeWait(0, 3, 30, fifth, findCulprits(0, fifth, all));
  EXPECT_NE(text.find("rank 0 has waited for 30 s, since "), std::string::npos)
      << text;
  EXPECT_NE(text.find("the network"), std::string::npos) << text;
}

TEST(Culprits, AreDescribed) {
  std::string text =
      describeWait(0, 3, 600, fifth,
                   findCulprits(0, fifth,
                                {standing(5, 5), standing(4, 0), standing(4, 0),
                                 standing(5, 5)}));
  EXPECT_EQ(
      text.find("ranks 1 and 2 have kept rank 0 waiting for 600 s, since "), 0u)
      << text;
  EXPECT_NE(text.find(" UTC, in all-gather of c of step 3: rank 1: its process "
                      "7 on a is alive, in step 3, and began its last such "
                      "collective, all-gather of b, 5 s ago; rank 2: "),
            std::string::npos)
      << text;
}

TEST(Culprits, PositionsAreSent) {
  RankPosition position = *standing(5, 5).position, none;
  auto sent = unpackPosition(packPosition(position));
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->step, 3u);
  EXPECT_EQ(sent->channels[1].awaitedName, "all-gather of b");
  EXPECT_EQ(sent->channels[1].started, 5u);
  EXPECT_EQ(sent->channels[2].startedName, "");
  EXPECT_TRUE(unpackPosition(packPosition(none)));
  EXPECT_FALSE(unpackPosition("1\n2"));
}

namespace {

using StoreOf = std::function<c10::intrusive_ptr<c10d::Store>(int rank)>;
using Act = std::function<void(Communicator &)>;

void meet(Communicator &c) { c.barrier(); }

/// What the others of three ranks over Gloo, as processes, find where one does
/// not come to what they do: the text of each one's error.
std::vector<std::string> errorsWithout(int absent, const Act &instead,
                                       std::chrono::milliseconds patience,
                                       StoreOf storeOf = nullptr,
                                       const Act &others = meet) {
  TemporaryFolder folder;
  if (!storeOf)
    storeOf = [&](int) {
      return c10::make_intrusive<c10d::FileStore>(folder / "store", 3);
    };
  std::vector<pid_t> children;
  for (int r = 0; r < 3; ++r)
    children.push_back(inProcess([&, r] {
      auto store = storeOf(r);
      auto c = createGlooCommunicator(*store, r, 3, {"", /*loopback=*/true},
                                      patience);
      c->barrier();
      try {
        if (r == absent)
          instead(*c);
        others(*c);
        return false;
      } catch (const PeerFailure &failure) {
        folder.write("rank" + std::to_string(r),
                     withIdentifier(failure.what(), failure.kind));
        c->leave(failure.what());
      } catch (const std::exception &error) {
        c->abort(error.what());
      }
      std::_Exit(0); // as fsdp-run ends
    }));
  std::vector<std::string> errors;
  for (int r = 0; r < 3; ++r) {
    if (r == absent)
      continue;
    EXPECT_EQ(statusOf(children[r]), 0);
    std::ifstream file(folder / ("rank" + std::to_string(r)));
    errors.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  kill(children[absent], SIGKILL);
  statusOf(children[absent]);
  return errors;
}

std::vector<std::string> errorsWithout2(const Act &rank2) {
  return errorsWithout(2, rank2, std::chrono::milliseconds(1500));
}

/// A store that ends with rank 0's process.
StoreOf servedByRank0() {
  int listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto *any = reinterpret_cast<sockaddr *>(&address);
  EXPECT_EQ(bind(listening, any, size), 0);
  EXPECT_EQ(listen(listening, 8), 0);
  EXPECT_EQ(getsockname(listening, any, &size), 0);
  return [listening, port = ntohs(address.sin_port)](int rank) {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = rank == 0;
    options.waitWorkers = false;
    if (rank == 0)
      options.masterListenFd = listening;
    else
      close(listening);
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  };
}

void expectAll(const std::vector<std::string> &errors,
               const std::string &expected) {
  for (const std::string &error : errors)
    EXPECT_NE(error.find(expected), std::string::npos) << error;
}

} // namespace

TEST(PeerWatch, WatchesProcessesAlone) {
  EXPECT_EQ(identifierThrownBy([] { PeerWatch().add(1, -1); }), "FSDP-E0008");
}

TEST(RankWatch, NamesAStoppedRank) {
  auto errors = errorsWithout2([](Communicator &) { raise(SIGSTOP); });
  expectAll(errors, "rank 2 has kept rank ");
  expectAll(errors, " is stopped");
  expectAll(errors, "[FSDP-E0611]");
  expectAll(errors, "in an agreement between steps");
}

TEST(RankWatch, NamesARankThatComputes) {
  auto errors = errorsWithout2([](Communicator &c) {
    c.watch()->progress().step = 8;
    std::this_thread::sleep_for(std::chrono::seconds(10));
    std::_Exit(1);
  });
  expectAll(errors, "rank 2 has kept rank ");
  expectAll(errors, "is alive, in step 8, and began its last such collective");
}

TEST(RankWatch, NamesARankThatIsKilled) {
  auto errors = errorsWithout2([](Communicator &) { raise(SIGKILL); });
  expectAll(errors, "rank 2 ended without a word, in an agreement");
}

void fails(Communicator &) { throw Error(E::Unexpected, "out of paper"); }

constexpr std::chrono::seconds patience(30); // nobody's is at its end

TEST(RankWatch, PassesOnWhyARankFailed) {
  expectAll(errorsWithout(2, fails, patience), "rank 2 failed: out of paper");
  expectAll(errorsWithout(0, fails, patience, servedByRank0()),
            "rank 0 failed: out of paper");
}

/// The store has gone with the rank that failed, and so may others have, who
/// could not say why any more.
TEST(RankWatch, PassesItOnToRanksThatComeLate) {
  auto comesLate = [](Communicator &c) {
    std::this_thread::sleep_for(std::chrono::seconds(2 + c.rank()));
    c.barrier();
  };
  expectAll(errorsWithout(0, fails, patience, servedByRank0(), comesLate),
            "rank 0 failed: out of paper");
}

/// A connection that is first made behind the failure, where ranks wait for
/// each other's addresses.
TEST(RankWatch, PassesItOnToRanksThatConnect) {
  auto connects = [](Communicator &c) {
    auto begin = std::chrono::steady_clock::now();
    char mine = 0, all[3];
    try {
      c.finish(c.start({plan::CollectiveKind::AllGather, &mine, all, 1,
                        plan::DType::UInt8, /*divisor=*/1, /*channel=*/1}));
    } catch (const PeerFailure &failure) {
      bool soon = std::chrono::steady_clock::now() - begin < patience / 3;
      throw PeerFailure(soon ? failure.what() : "after a long wait");
    }
  };
  expectAll(errorsWithout(2, fails, patience, nullptr, connects),
            "rank 2 failed: out of paper");
}
