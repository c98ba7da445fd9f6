// Tests ranks over Gloo that do not do the same: each way is an error that
// names the transfers, within moments, and ends no process.
#include "comm/GlooCommunicator.h"

#include "RankProcesses.h"
#include "comm/AwaitWork.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr size_t count = 30'000;

std::unique_ptr<Communicator> connectGloo(c10d::Store &store, int rank,
                                          int ranks) {
  return createGlooCommunicator(store, rank, ranks, {"", /*loopback=*/true},
                                std::chrono::seconds(30));
}

/// What two ranks, each a process, throw in `body`.
std::vector<std::string>
errorsOf(const std::function<void(Communicator &)> &body) {
  TemporaryFolder folder;
  auto fileOf = [](int rank) { return "rank" + std::to_string(rank); };
  RankProcesses ranks(
      2,
      [&](Communicator &c) {
        try {
          body(c);
        } catch (const std::exception &error) {
          folder.write(fileOf(c.rank()), error.what());
          c.abort(error.what());
        }
        std::_Exit(0); // as fsdp-run ends
        return true;
      },
      connectGloo);
  EXPECT_EQ(ranks.statuses(), std::vector<int>(2, 0));
  std::vector<std::string> errors;
  for (int r : {0, 1}) {
    std::ifstream file(folder / fileOf(r));
    errors.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  return errors;
}

struct Gather : Transfer {
  std::vector<float> from, to;
  Gather(size_t count, int ranks) : from(count * ranks), to(count * ranks) {
    source = from.data(), destination = to.data();
    this->count = count;
    kind = plan::CollectiveKind::AllGather, dtype = plan::DType::Float32;
    name = "all-gather of blocks.0";
  }
};

/// A transfer that ends as a wait for it gives up.
struct LateWork : c10d::Work {
  explicit LateWork(std::string failure) : failure(std::move(failure)) {}
  bool wait(std::chrono::milliseconds) override {
    if (!std::exchange(ended, true))
      throw std::runtime_error("Operation timed out!");
    if (!failure.empty())
      throw std::runtime_error(failure);
    return true;
  }
  bool isCompleted() override { return ended; }

  bool ended = false;
  std::string failure;
};

} // namespace

TEST(Gloo, ATransferThatEndsWithAnIntervalSaysHow) {
  for (const std::string failure : {"", "connection closed by peer"}) {
    LateWork work(failure);
    std::string thrown;
    try {
      awaitWork(work, std::chrono::milliseconds(1), [] {});
    } catch (const std::exception &error) {
      thrown = error.what();
    }
    EXPECT_EQ(thrown, failure);
  }
}

TEST(Gloo, RanksThatDoSomethingElseAreTold) {
  struct Change {
    void (*apply)(Transfer &);
    const char *rank1; // starts it
  };
  const Change changes[] = {
      {[](Transfer &t) { t.kind = plan::CollectiveKind::ReduceScatter; },
       "a reduce-scatter of 120000 bytes (30000 float32)"},
      {[](Transfer &t) { t.kind = plan::CollectiveKind::AllToAll; },
       "an all-to-all of 120000 bytes (30000 float32)"},
      {[](Transfer &t) { t.count = count / 2; },
       "an all-gather of 60000 bytes (15000 float32)"},
      {[](Transfer &t) { t.count = 0; },
       "an all-gather of 0 bytes (0 float32)"},
      {[](Transfer &t) { t.dtype = plan::DType::Int32; },
       "an all-gather of 120000 bytes (30000 int32)"},
  };
  for (const Change &change : changes) {
    auto errors = errorsOf([&](Communicator &c) {
      Gather gather(count, 2);
      if (c.rank() == 1)
        change.apply(gather);
      c.barrier();
      c.finish(c.start(gather));
    });
    const std::string rank0 = "an all-gather of 120000 bytes (30000 float32)";
    const std::string seen[] = {
        std::string("rank 1 starts ") + change.rank1 + " where rank 0 starts " +
            rank0 + ", in all-gather of blocks.0",
        "rank 0 starts " + rank0 + " where rank 1 starts " + change.rank1 +
            ", in all-gather of blocks.0"};
    // One may hear of the other's end first.
    EXPECT_TRUE(errors[0].find(seen[0]) != std::string::npos ||
                errors[1].find(seen[1]) != std::string::npos)
        << errors[0] << "\n"
        << errors[1];
    for (const std::string &error : errors)
      EXPECT_NE(error.find("ranks do not do the same"), std::string::npos);
  }
}

TEST(Gloo, AnInterfaceThatIsNoneIsNoFaultOfOthers) {
  TemporaryFolder folder;
  auto store = c10::make_intrusive<c10d::FileStore>(folder / "store", 2);
  try {
    createGlooCommunicator(*store, 1, 2, {"no0"}, std::chrono::seconds(30));
    FAIL() << "it listens";
  } catch (const Error &error) {
    std::string text = error.what();
    EXPECT_EQ(text.find("cannot listen for other ranks on the interface 'no0'"),
              0u)
        << text;
  }
}

/// What is sent is longer than what is awaited: Gloo's thread finds it, since
/// both sizes have been compared before.
TEST(Gloo, RanksThatAgreedOnceAndDifferLaterAreTold) {
  auto errors = errorsOf([&](Communicator &c) {
    Gather small(count / 2, 2), large(count, 2);
    for (Gather *gather : {&small, &large})
      c.finish(c.start(*gather));
    c.finish(c.start(c.rank() ? large : small));
    c.barrier();
  });
  EXPECT_NE(errors[0].find("rank 0 was sent "), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find(" bytes where it awaits "), std::string::npos);
  EXPECT_NE(errors[0].find(", in all-gather of blocks.0: ranks do not do the "
                           "same"),
            std::string::npos);
  EXPECT_NE(errors[1].find("rank 0 failed: rank 0 was sent "),
            std::string::npos)
      << errors[1];
}

/// A rank compares what another has compared before.
TEST(Gloo, ARankWithANewTransferIsTold) {
  for (int late : {0, 1}) {
    auto errors = errorsOf([&](Communicator &c) {
      Gather known(count, 2), unknown(count / 2, 2);
      c.finish(c.start(known));
      c.finish(c.start(c.rank() == late ? unknown : known));
      c.barrier();
    });
    EXPECT_NE(errors[late].find(" bytes where it awaits "), std::string::npos)
        << errors[late];
    EXPECT_NE(errors[1 - late].find("ranks do not do the same"),
              std::string::npos)
        << errors[1 - late];
  }
}
