// Tests that ranks meet, and that those who must not train together, or never
// come, are named.
#include "launch/Rendezvous.h"

#include "Error.h"
#include "ErrorKind.h"
#include "TemporaryFolder.h"
#include "comm/HostProcess.h"
#include "launch/ListeningSocket.h"
#include "launch/MeetingStore.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <thread>
#include <unistd.h>

using namespace fsdp;
using fsdp::test::TemporaryFolder;

namespace {

Membership rankOf(int rank, int size) {
  Membership me;
  me.rank = rank;
  me.size = size;
  return me;
}

/// What each of `arriving` ranks of `size` says after meeting in a file; "":
/// they met and added up their ranks. Another one declines to come.
std::vector<std::string>
meetInFile(int arriving, int size, int timeout,
           const std::function<Agreement(int)> &agreement,
           const std::vector<std::string> &secrets = {}, int declining = -1) {
  TemporaryFolder folder;
  std::vector<std::string> errors(arriving);
  auto at = [&](int rank) {
    MeetingPoint where;
    where.path = folder / "meeting";
    where.secret = secrets.empty() ? "" : secrets[rank];
    return where;
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < arriving; ++r)
    threads.emplace_back([&, r] {
      Membership me = rankOf(r, size);
      try {
        Connection met = meet(me, at(r), "test", agreement(r), {},
                              std::chrono::seconds(timeout));
        double sum = r;
        met.communicator->allReduce(&sum, &sum, 1, plan::DType::Float64);
        errors[r] = sum == size * (size - 1) / 2 ? "" : "wrong sum";
        met.communicator->barrier();
      } catch (const std::exception &error) {
        errors[r] = error.what();
      }
    });
  if (declining >= 0)
    declineToMeet(rankOf(declining, size), at(declining), "test", "a bad plan");
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

Agreement same(int) { return {{"plan", "abc"}}; }

TEST(Rendezvous, AHostThatNobodyKnowsIsNamed) {
  MeetingPoint where;
  where.kind = MeetingPoint::Kind::Server;
  where.host = "127.0.0.1";
  EXPECT_NE(adviceOnHost(where).find("is this host itself"), std::string::npos);
  where.host = "256.0.0.1"; // no address, and no name that is asked for
  EXPECT_NE(adviceOnHost(where).find("does not know the name 256.0.0.1"),
            std::string::npos);
}

} // namespace

TEST(Rendezvous, RanksMeet) {
  for (const std::string &error : meetInFile(3, 3, 60, same))
    EXPECT_EQ(error, "");
}

TEST(Rendezvous, DifferentPlansAreShown) {
  for (const std::string &error : meetInFile(3, 3, 60, [](int rank) {
         return Agreement{{"plan", rank == 2 ? "def" : "abc"}};
       })) {
    EXPECT_NE(error.find("abc"), std::string::npos) << error;
    EXPECT_NE(error.find("def"), std::string::npos) << error;
    EXPECT_NE(error.find("rank 2"), std::string::npos) << error;
  }
}

TEST(Rendezvous, WhatIsNamedFirstIsComparedFirst) {
  for (const std::string &error : meetInFile(2, 2, 60, [](int rank) {
         return Agreement{{"fsdp-run", rank ? "0.2.0" : "0.1.0"},
                          {"plan", rank ? "def" : "abc"}};
       }))
    EXPECT_NE(error.find("rank 0 and rank 1 have a different fsdp-run: 0.1.0 "
                         "and 0.2.0"),
              std::string::npos)
        << error;
}

TEST(Rendezvous, SeveralHostsAreNamed) {
  EXPECT_EQ(rankAmong({"a", "a"}, 1), "rank 1");
  EXPECT_EQ(rankAmong({"a", "b"}, 1), "rank 1 on b");
}

TEST(Rendezvous, RankThatNeverComesIsNamed) {
  for (const std::string &error : meetInFile(2, 4, 1, same))
    EXPECT_NE(error.find("rank 2, rank 3 of 4"), std::string::npos) << error;
}

TEST(Rendezvous, ARankThatServesAndNeverComesIsWaitedForNoLonger) {
  Membership me = rankOf(1, 2);
  MeetingPoint where;
  where.kind = MeetingPoint::Kind::Server;
  where.host = "127.0.0.1";
  where.port = 1; // a system's own, where nobody listens
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(test::identifierThrownBy([&] {
              meet(me, where, "test", same(0), {}, std::chrono::seconds(2));
            }),
            "FSDP-E0605");
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(2500));
}

TEST(Rendezvous, ARankThatDeclinesEndsTheMeeting) {
  auto errors = meetInFile(2, 3, 60, same, {}, /*declining=*/2);
  EXPECT_NE(errors[0].find("rank 2 on "), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find(": a bad plan"), std::string::npos) << errors[1];
}

static int freePort() {
  int listening = listenAt("127.0.0.1", /*port=*/0).value();
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(listening, reinterpret_cast<sockaddr *>(&address), &size);
  close(listening);
  return ntohs(address.sin_port);
}

/// Hosts of two ranks each, of which the first serves the place. What rank 2
/// hears, where the other host comes; else that declines as well.
static std::string heardWhereHost0Declines(bool declinesToo) {
  MeetingPoint where;
  where.kind = MeetingPoint::Kind::Server;
  where.host = "127.0.0.1";
  where.port = freePort();
  const auto patience = std::chrono::seconds(60);
  auto decline = [&](int first) {
    declineToMeet(rankOf(first, 4), where, "test", "no step", 2, patience);
  };
  std::vector<std::string> heard(2);
  auto come = [&](int rank) {
    try {
      meet(rankOf(rank, 4), where, "test", same(rank), {}, patience);
    } catch (const std::exception &error) {
      heard[rank - 2] = error.what();
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(decline, 0);
  if (declinesToo)
    threads.emplace_back(decline, 2);
  else
    for (int rank : {2, 3})
      threads.emplace_back(come, rank);
  for (std::thread &thread : threads)
    thread.join();
  return heard[0];
}

TEST(Rendezvous, AHostThatDeclinesStaysUntilTheOthersHaveHeard) {
  auto begin = std::chrono::steady_clock::now();
  std::string heard = heardWhereHost0Declines(/*declinesToo=*/false);
  EXPECT_NE(heard.find(": no step"), std::string::npos) << heard;
  heardWhereHost0Declines(/*declinesToo=*/true);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Rendezvous, AFolderThatIsNotThereIsNoMeetingPlace) {
  Membership me = rankOf(0, 2);
  MeetingPoint where;
  where.kind = MeetingPoint::Kind::File;
  where.path = "/nowhere/meeting";
  EXPECT_EQ(test::identifierThrownBy([&] {
              meet(me, where, "test", same(0), {}, std::chrono::seconds(1));
            }),
            "FSDP-E0606");
}

TEST(Rendezvous, RanksWithOneSecretMeet) {
  for (const std::string &error :
       meetInFile(2, 2, 60, same, {"a common secret", "a common secret"}))
    EXPECT_EQ(error, "");
}

TEST(Rendezvous, ARankWithAnotherSecretIsNamed) {
  for (const char *other : {"another secret", ""}) {
    auto errors = meetInFile(2, 2, 60, same, {"a common secret", other});
    EXPECT_NE(errors[0].find("what rank 1 says"), std::string::npos)
        << errors[0];
    EXPECT_NE(errors[1].find("the same"), std::string::npos) << errors[1];
    EXPECT_NE(errors[1].find("secret"), std::string::npos) << errors[1];
  }
}
