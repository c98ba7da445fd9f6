// Tests ranks that are processes: they read each other's memory, a rank that
// dies is noticed, and nothing is left behind.
#include "comm/SharedMemoryCommunicator.h"

#include "Error.h"
#include "TemporaryFolder.h"
#include "comm/ConnectRanks.h"
#include "comm/ControlBlock.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <unistd.h>

using namespace fsdp;
using fsdp::test::TemporaryFolder;

namespace {

constexpr auto timeout = std::chrono::seconds(30);
using Body = std::function<bool(Communicator &)>;

/// Runs `body` on ranks that are processes. Returns their statuses as waitpid()
/// gives them: 0 where it returned true.
std::vector<int> onProcesses(int ranks, const Body &body) {
  TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    pid_t child = fork();
    if (child == 0) {
      // A rank that waits for ever fails the test instead.
      alarm(60);
      bool good = false;
      try {
        auto store =
            c10::make_intrusive<c10d::FileStore>(folder / "store", ranks);
        auto c = createSharedMemoryCommunicator(*store, r, ranks, timeout);
        good = body(*c);
      } catch (const std::exception &error) {
        std::fprintf(stderr, "rank %d: %s\n", r, error.what());
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  std::vector<int> statuses(ranks);
  for (int r = 0; r < ranks; ++r)
    waitpid(children[r], &statuses[r], 0);
  return statuses;
}

size_t openFiles() {
  auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

size_t sharedMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("/memfd:fsdp") != std::string::npos;
  return count;
}

/// Two pages of each rank's arena, shown in the window.
ArenaLayout pagesOf(const Communicator &c) {
  uint64_t bytes = 2 * sysconf(_SC_PAGESIZE);
  ArenaLayout layout;
  layout.arenaBytes = 4 * bytes;
  layout.windowBytes = bytes * c.size();
  layout.window = {{bytes, 0, bytes}};
  return layout;
}

} // namespace

TEST(SharedMemory, ProcessesSeeEachOthersPages) {
  for (int status : onProcesses(3, [](Communicator &c) {
         ArenaLayout layout = pagesOf(c);
         auto memory = c.allocate(layout);
         if (!memory->mapped())
           return false;
         const WindowPart &part = layout.window[0];
         bool good = true;
         for (int round = 1; round < 50; ++round) {
           std::memset(memory->arena() + part.source, round + c.rank(),
                       part.bytes);
           c.finish(c.start({plan::CollectiveKind::AllGather,
                             memory->arena() + part.source, memory->window(),
                             part.bytes, plan::DType::UInt8, 1, 0,
                             /*mapped=*/true}));
           for (int r = 0; r < c.size(); ++r)
             for (uint64_t i : {uint64_t{0}, part.bytes - 1})
               good = good && memory->window()[r * part.bytes + i] == round + r;
           c.barrier();
         }
         return good;
       }))
    EXPECT_EQ(status, 0);
}

TEST(SharedMemory, NothingIsLeftOpen) {
  for (int status : onProcesses(2, [](Communicator &c) {
         // Who watches the other keeps one handle of it.
         size_t files = openFiles(), mappings = sharedMappings();
         for (int i = 0; i < 3; ++i) {
           auto memory = c.allocate(pagesOf(c));
           if (openFiles() != files || sharedMappings() <= mappings)
             return false;
           c.barrier();
         }
         return openFiles() == files && sharedMappings() == mappings;
       }))
    EXPECT_EQ(status, 0);
  EXPECT_EQ(sharedMappings(), 0u);
}

/// How the others are when a rank is killed: they spin, or they sleep.
class Death : public testing::TestWithParam<int> {};

TEST_P(Death, IsNoticed) {
  std::vector<int> statuses = onProcesses(3, [](Communicator &c) {
    auto memory = c.allocate(pagesOf(c));
    c.barrier();
    if (c.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(GetParam()));
      kill(getpid(), SIGKILL);
    }
    auto begin = std::chrono::steady_clock::now();
    try {
      for (;;)
        c.reduceScatter(memory->arena(), memory->arena() + 4096, 100,
                        plan::DType::Float32);
    } catch (const PeerFailure &failure) {
      auto late = std::chrono::steady_clock::now() - begin -
                  std::chrono::milliseconds(GetParam());
      return late < std::chrono::seconds(5) &&
             std::string(failure.what()).find("rank 1") != std::string::npos;
    }
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(WTERMSIG(statuses[1]), SIGKILL);
  EXPECT_EQ(statuses[2], 0);
}

INSTANTIATE_TEST_SUITE_P(Milliseconds, Death, testing::Values(0, 300));

/// What a rank has given before it ended is no failure.
TEST(SharedMemory, ARankMayEndFirst) {
  for (int status : onProcesses(2, [](Communicator &c) {
         if (c.rank() == 1)
           std::this_thread::sleep_for(std::chrono::milliseconds(300));
         int64_t one = 1;
         c.allReduce(&one, &one, 1, plan::DType::Int64);
         return one == 2;
       }))
    EXPECT_EQ(status, 0);
}

TEST(SharedMemory, MoreRanksThanCpus) {
  auto begin = std::chrono::steady_clock::now();
  for (int status : onProcesses(
           2 * std::thread::hardware_concurrency(), [](Communicator &c) {
             auto memory = c.allocate(pagesOf(c));
             for (int i = 0; i < 2000; ++i)
               c.reduceScatter(memory->arena(), memory->arena() + 8192, 10,
                               plan::DType::Float32);
             c.barrier();
             return true;
           }))
    EXPECT_EQ(status, 0);
  // A rank that would not let the others work needs a time slice each round.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
}

TEST(SharedMemory, AnotherHostsMemoryIsNotShared) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  auto say = [&](const std::string &key, const std::string &text) {
    store->set(key, std::vector<uint8_t>(text.begin(), text.end()));
  };
  // Rank 1, elsewhere.
  say("segment/1",
      "another-boot 1 1 1 1 1 " + std::to_string(sizeof(ControlBlock)));
  say("complaint/1", " ");
  try {
    createSharedMemoryCommunicator(*store, 0, 2, timeout);
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "the ranks cannot share memory: rank 1 for "
                               "rank 0: it is on another host");
  }
}

TEST(ConnectRanks, FindsTheTransport) {
  for (auto [transport, name] :
       {std::pair(Transport::Auto, "shared memory"),
        std::pair(Transport::SharedMemory, "shared memory"),
        std::pair(Transport::Gloo, "Gloo")}) {
    auto store = c10::make_intrusive<c10d::HashStore>();
    CommOptions options;
    options.transport = transport;
    Connection connection = connectRanks(*store, 0, 1, options, {"", true});
    EXPECT_EQ(connection.communicator->transport(), name);
    EXPECT_EQ(connection.note, "");
  }
}
