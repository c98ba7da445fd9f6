// Tests ranks that read and write each other's memory: as processes, without
// the kernel's help, on few CPUs, and where there is nothing to share.
#include "comm/SharedMemoryCommunicator.h"

#include "Error.h"
#include "RankProcesses.h"
#include "RankThreads.h"
#include "comm/ConnectRanks.h"
#include "comm/ControlBlock.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr auto timeout = std::chrono::seconds(30);

std::unique_ptr<Communicator> connectAlone() {
  auto store = c10::make_intrusive<c10d::HashStore>();
  return createSharedMemoryCommunicator(*store, 0, 1, timeout);
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
  layout.window = {{bytes, 0, bytes, {0, 1, static_cast<uint32_t>(c.size())}}};
  return layout;
}

/// The kernel ends this process at any system call but its own end, and the
/// clock's, which is none where the kernel shows the clock in memory.
bool endAtSystemCalls() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program = {std::size(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Whether `call` throws an Error that says `text`.
bool refuses(const std::function<void()> &call, const std::string &text) {
  try {
    call();
  } catch (const Error &error) {
    std::string said = withIdentifier(error.what(), error.kind);
    if (said.find(text) != std::string::npos)
      return true;
    std::fprintf(stderr, "%s\n", said.c_str());
  }
  return false;
}

} // namespace

TEST(SharedMemory, ProcessesSeeEachOthersPages) {
  RankProcesses ranks(3, [](Communicator &c) {
    ArenaLayout layout = pagesOf(c);
    auto memory = c.allocate(layout);
    if (!memory->mapped())
      return false;
    const WindowPart &part = layout.window[0];
    bool good = true;
    for (int round = 1; round < 50; ++round) {
      std::memset(memory->arena() + part.source, round + c.rank(), part.bytes);
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
  });
  EXPECT_EQ(ranks.statuses(), std::vector<int>(3, 0));
}

/// The window is to be read: a kernel that writes there would change what other
/// ranks compute with, unseen.
TEST(SharedMemory, NobodyWritesThroughAWindow) {
  pid_t child = inProcess([] {
    auto c = connectAlone();
    uint64_t page = sysconf(_SC_PAGESIZE);
    ArenaLayout layout;
    layout.arenaBytes = layout.windowBytes = page;
    layout.window = {{0, 0, page, {0, 1, 1}}};
    auto memory = c->allocate(layout);
    memory->arena()[0] = 1;
    if (!memory->mapped() || memory->window()[0] != 1)
      return false;
    signal(SIGSEGV, SIG_DFL); // also where a sanitizer would catch it
    memory->window()[0] = 2;
    return true;
  });
  EXPECT_EQ(WTERMSIG(statusOf(child)), SIGSEGV);
}

TEST(SharedMemory, NothingIsLeftOpen) {
  RankProcesses ranks(2, [](Communicator &c) {
    // Who watches the other keeps one handle of it.
    size_t files = openFiles(), mappings = sharedMappings();
    for (int i = 0; i < 3; ++i) {
      auto memory = c.allocate(pagesOf(c));
      if (openFiles() != files || sharedMappings() <= mappings)
        return false;
      c.barrier();
    }
    return openFiles() == files && sharedMappings() == mappings;
  });
  EXPECT_EQ(ranks.statuses(), std::vector<int>(2, 0));
  EXPECT_EQ(sharedMappings(), 0u);
}

/// Ranks whose plans differ must not move bytes as if they did not.
TEST(SharedMemory, RanksThatDoSomethingElseAreTold) {
  constexpr int ranks = 2;
  constexpr size_t count = 30'000;
  using Change = void (*)(Transfer &);
  const Change changes[] = {
      [](Transfer &t) { t.kind = plan::CollectiveKind::ReduceScatter; },
      [](Transfer &t) { t.kind = plan::CollectiveKind::AllToAll; },
      [](Transfer &t) { t.count = count / 2; },
      [](Transfer &t) { t.count = 0; },
      [](Transfer &t) { t.dtype = plan::DType::Int32; },
      [](Transfer &t) { t.divisor = 2; },
  };
  for (Change change : changes) {
    auto store = c10::make_intrusive<c10d::HashStore>();
    auto errors = onRanks(
        ranks,
        [&](int rank) {
          return createSharedMemoryCommunicator(*store, rank, ranks, timeout);
        },
        [&](Communicator &c) {
          std::vector<float> from(count * ranks), to(count * ranks);
          Transfer transfer{plan::CollectiveKind::AllGather, from.data(),
                            to.data(), count, plan::DType::Float32};
          if (c.rank() == 1)
            change(transfer);
          c.barrier();
          c.finish(c.start(transfer));
        });
    // One may hear of the other's end first.
    EXPECT_NE((errors[0] + errors[1]).find("ranks do not do the same"),
              std::string::npos)
        << errors[0] << errors[1];
  }
}

/// One thread is two ranks in turns, so that none is late.
TEST(SharedMemory, WhereNobodyIsLateThereIsNoSystemCall) {
#ifdef FSDP_SANITIZED
  GTEST_SKIP() << "a sanitizer calls the system and needs addresses itself";
#endif
  pid_t child = inProcess([]() -> bool {
    constexpr int ranks = 2;
    constexpr size_t count = 100'000;
    auto store = c10::make_intrusive<c10d::HashStore>();
    std::unique_ptr<Communicator> communicators[ranks];
    std::unique_ptr<ArenaMemory> memory[ranks];
    std::thread threads[ranks];
    for (int r = 0; r < ranks; ++r)
      threads[r] = std::thread([&, r] {
        communicators[r] =
            createSharedMemoryCommunicator(*store, r, ranks, timeout);
        ArenaLayout layout = pagesOf(*communicators[r]);
        layout.arenaBytes += 2 * ranks * count * sizeof(float);
        memory[r] = communicators[r]->allocate(layout);
      });
    for (std::thread &thread : threads)
      thread.join();
    if (!endAtSystemCalls())
      return false;
    for (int round = 0; round < 1000; ++round) {
      uint64_t tickets[2][ranks];
      for (int r = 0; r < ranks; ++r) {
        char *from = memory[r]->arena(), *to = from + ranks * count * 4;
        bool mapped = round % 10 == 0;
        Transfer gather{plan::CollectiveKind::AllGather, from, to,
                        round % 100 ? 10 : count, plan::DType::Float32};
        if (mapped)
          gather = {plan::CollectiveKind::AllGather,
                    from + 8192,
                    memory[r]->window(),
                    8192,
                    plan::DType::UInt8,
                    1,
                    0,
                    mapped};
        Transfer reduce{plan::CollectiveKind::ReduceScatter,
                        from,
                        to,
                        round % 100 ? 10 : count,
                        plan::DType::BFloat16,
                        /*divisor=*/2,
                        /*channel=*/1};
        tickets[0][r] = communicators[r]->start(gather);
        tickets[1][r] = communicators[r]->start(reduce);
      }
      for (auto &channel : tickets)
        for (int r = 0; r < ranks; ++r)
          communicators[r]->finish(channel[r]);
    }
    // Giving memory back would be a system call.
    _exit(0);
  });
  EXPECT_EQ(statusOf(child), 0);
}

/// Ranks that wait let the others work: else every turn would be a time slice
/// of the kernel's, and the ranks would run out of time.
TEST(SharedMemory, MoreRanksThanCpus) {
  RankProcesses ranks(4, [](Communicator &c) {
    auto memory = c.allocate(pagesOf(c));
    for (int i = 0; i < 5000; ++i)
      c.reduceScatter(memory->arena(), memory->arena() + 8192, 10,
                      plan::DType::Float32);
    c.barrier();
    return true;
  });
  EXPECT_EQ(ranks.statuses(), std::vector<int>(4, 0));
}

/// As where a plan gathers hundreds of tiny units ahead.
TEST(SharedMemory, MoreInFlightThanFit) {
  constexpr int many = 3 * ChannelControl::numSlots;
  RankProcesses ranks(2, [](Communicator &c) {
    std::vector<float> sums(many);
    std::vector<uint64_t> tickets;
    for (int i = 0; i < many; ++i) {
      sums[i] = static_cast<float>(i + c.rank());
      tickets.push_back(c.start({plan::CollectiveKind::AllReduce, &sums[i],
                                 &sums[i], 1, plan::DType::Float32}));
    }
    bool right = true;
    for (int i = 0; i < many; ++i) {
      c.finish(tickets[i]);
      right &= sums[i] == static_cast<float>(2 * i + 1);
    }
    // What was finished long ago is not mistaken for what has its place now.
    return right && !c.startedByAll(tickets[0]) &&
           c.startedByAll(tickets[many - 1]);
  });
  EXPECT_EQ(ranks.statuses(), std::vector<int>(2, 0));
}

TEST(SharedMemory, MoreMemoryThanTheHostHas) {
  auto c = connectAlone();
  ArenaLayout layout;
  layout.arenaBytes = uint64_t{1} << 50;
  EXPECT_TRUE(refuses([&] { c->allocate(layout); }, "this host has"));
}

TEST(SharedMemory, NoAddressesLeft) {
#ifdef FSDP_SANITIZED
  GTEST_SKIP() << "a sanitizer calls the system and needs addresses itself";
#endif
  EXPECT_EQ(statusOf(inProcess([] {
              auto c = connectAlone();
              rlimit limit = {1 << 20, 1 << 20};
              setrlimit(RLIMIT_AS, &limit);
              ArenaLayout layout;
              layout.arenaBytes = 16 << 20;
              return refuses([&] { c->allocate(layout); },
                             "Cannot allocate memory");
            })),
            0);
}

TEST(SharedMemory, NoOpenFilesLeft) {
  EXPECT_EQ(statusOf(inProcess([] {
              int next = dup(0);
              close(next);
              rlimit limit = {rlim_t(next), rlim_t(next)};
              setrlimit(RLIMIT_NOFILE, &limit);
              return refuses([] { connectAlone(); },
                             "cannot share memory: rank 0: ") &&
                     refuses([] { connectAlone(); },
                             "Too many open files [FSDP-E0609]");
            })),
            0);
}

namespace {

/// What rank 1 says of itself, and why rank 0 cannot share memory with it.
struct Stranger {
  std::string boot;
  uint64_t processNamespace;
  std::string memory; // process, descriptor, device, inode, bytes
  std::string reason;
};

} // namespace

TEST(SharedMemory, RanksThatCannotShareFallBack) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat here;
  ASSERT_EQ(stat("/proc/self/ns/pid", &here), 0);
  std::string bytes = std::to_string(sizeof(ControlBlock));
  std::string me = std::to_string(getpid());
  for (const Stranger &stranger :
       {Stranger{"another-boot", 1, "1 1 1 1 " + bytes,
                 "it is on another host"},
        Stranger{boot, here.st_ino + 1, "1 1 1 1 " + bytes,
                 "it is in another PID namespace"},
        Stranger{boot, here.st_ino, me + " 0 1 1 " + bytes,
                 "/proc/" + me + "/fd/0 is not the memory that was shared"},
        Stranger{boot, here.st_ino, me + " 0 1 1 64",
                 "it shares nothing that this version understands"}}) {
    auto store = c10::make_intrusive<c10d::HashStore>();
    auto say = [&](const std::string &key, const std::string &text) {
      store->set(key, std::vector<uint8_t>(text.begin(), text.end()));
    };
    say("segment/1", stranger.boot + " " +
                         std::to_string(stranger.processNamespace) + " " +
                         stranger.memory);
    say("complaint/1", " ");
    EXPECT_TRUE(
        refuses([&] { createSharedMemoryCommunicator(*store, 0, 2, timeout); },
                "the ranks cannot share memory: rank 1 for rank 0: " +
                    stranger.reason));
  }
}

TEST(ConnectRanks, FindsTheTransportAndSaysWhy) {
  for (auto [transport, name, reason] :
       {std::tuple(HostTransport::Auto, "shared memory", "all are on one host"),
        std::tuple(HostTransport::SharedMemory, "shared memory",
                   "all are on one host"),
        std::tuple(HostTransport::Gloo, "Gloo", "as --comm says")}) {
    auto store = c10::make_intrusive<c10d::HashStore>();
    CommOptions options;
    options.transport = transport;
    Connection connection = connectRanks(*store, 0, 1, options, {"", true});
    EXPECT_EQ(connection.communicator->transport(), name);
    EXPECT_EQ(connection.reason, reason);
  }
}
