// Tests that ranks meet, and that those who must not train together, or never
// come, are named.
#include "launch/Rendezvous.h"

#include "Error.h"
#include "ErrorKind.h"
#include "TemporaryFolder.h"
#include "comm/HostProcess.h"

#include <gtest/gtest.h>
#include <thread>

using namespace fsdp;
using fsdp::test::TemporaryFolder;

namespace {

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
      Membership me;
      me.rank = r;
      me.size = size;
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
    declineToMeet({declining, size}, at(declining), "test", "a bad plan");
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

Agreement same(int) { return {{"plan", "abc"}}; }

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
  Membership me;
  me.rank = 1;
  me.size = 2;
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

TEST(Rendezvous, AFolderThatIsNotThereIsNoMeetingPlace) {
  Membership me;
  me.size = 2;
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
