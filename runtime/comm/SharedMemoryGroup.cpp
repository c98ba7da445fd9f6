#include "comm/SharedMemoryGroup.h"

#include "Error.h"
#include "comm/Contention.h"
#include "comm/ControlGroup.h"
#include "comm/HostProcess.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <sstream>
#include <sys/syscall.h>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <unistd.h>

namespace fsdp {

namespace {

/// A rank that waits for long looks around this often.
constexpr auto lookAround = std::chrono::milliseconds(20);

/// So long after a rank was kept from its CPU ranks wait as if others were.
constexpr auto calmAfter = std::chrono::seconds(1);

/// With a CPU for each rank nobody is kept from working by one that spins.
constexpr WaitPolicy patientSpinning = {20'000,
                                        std::chrono::microseconds(50'000)};
/// Else a CPU that is free may be what the rank that is waited for needs.
constexpr WaitPolicy sleepingSoon = {200, std::chrono::microseconds(100)};

/// Ranks that share memory have met a moment ago.
constexpr auto meetingTimeout = std::chrono::seconds(60);

std::string greet(const HostIdentity &host,
                  const SharedSegment::Address &address) {
  std::ostringstream text;
  text << host.boot << ' ' << host.processNamespace << ' ' << address.process
       << ' ' << address.descriptor << ' ' << address.device << ' '
       << address.inode << ' ' << address.bytes;
  return text.str();
}

/// Where the rank's segment is, if it is on this host.
SharedSegment::Address understand(const std::string &greeting,
                                  const HostIdentity &host) {
  HostIdentity other;
  SharedSegment::Address address;
  std::istringstream text(greeting);
  text >> other.boot >> other.processNamespace >> address.process >>
      address.descriptor >> address.device >> address.inode >> address.bytes;
  if (!text || address.bytes != sizeof(ControlBlock))
    throw Error(E::SharedMemory,
                "it shares nothing that this version understands");
  if (other.boot != host.boot)
    throw Error(E::SharedMemory, "it is on another host");
  if (other.processNamespace != host.processNamespace)
    throw Error(E::SharedMemory, "it is in another PID namespace");
  return address;
}

void futexWait(std::atomic<uint32_t> &word, uint32_t expected,
               std::chrono::milliseconds limit) {
  timespec time = {0, limit.count() * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void futexWake(std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace

SharedMemoryGroup::SharedMemoryGroup(c10d::Store &store, int rank, int size,
                                     const Patience &patience)
    : rank(rank), size(size), segments(size), patience(patience) {
  // Nobody leaves before all know whether all can: they fall back together.
  std::string greeting = "none", complaint;
  HostIdentity host;
  auto attempt = [&](const std::string &about, auto &&call) {
    try {
      call();
    } catch (const Error &error) {
      if (complaint.empty())
        complaint = about + ": " + error.what();
    }
  };
  attempt("rank " + std::to_string(rank), [&] {
    host = thisHost();
    segments[rank] = SharedSegment::create(sizeof(ControlBlock));
    block(rank).cpus = allowedCpus();
    greeting = greet(host, segments[rank].address());
  });
  std::vector<std::string> greetings = exchange(store, "segment", greeting);
  for (int r = 0; r < size; ++r)
    if (r != rank)
      attempt("rank " + std::to_string(r) + " for rank " + std::to_string(rank),
              [&] {
                auto address = understand(greetings[r], host);
                processes.add(r, address.process);
                segments[r] = SharedSegment::open(address);
              });
  for (const std::string &other : exchange(store, "complaint", complaint + " "))
    if (other != " ")
      throw Error(E::SharedMemory, "the ranks cannot share memory: " +
                                       other.substr(0, other.size() - 1));
  for (SharedSegment &segment : segments)
    segment.closeDescriptor();
  rankWatch = std::make_unique<RankWatch>(store, rank, size, patience);
  hasCpuForEach = findCpus() >= size;
  choosePolicy(Clock::now());
}

double SharedMemoryGroup::findCpus() const {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int r = 0; r < size; ++r)
    CPU_OR(&all, &all, &block(r).cpus);
  double cpus = CPU_COUNT(&all), quota = cpuQuota();
  return quota > 0 ? std::min(cpus, quota) : cpus;
}

void SharedMemoryGroup::choosePolicy(Clock::time_point now) {
  static thread_local Contention contention;
  if (contention.isDue(now) && contention.look(now, timeWithoutCpu()))
    block(rank).contendedUntil.store(
        (now + calmAfter).time_since_epoch().count(),
        std::memory_order_relaxed);
  bool spins = hasCpuForEach;
  for (int r = 0; spins && r < size; ++r)
    spins = block(r).contendedUntil.load(std::memory_order_relaxed) <
            now.time_since_epoch().count();
  policy.store(spins ? &patientSpinning : &sleepingSoon,
               std::memory_order_relaxed);
}

/// Every rank says something under `what`; returns what all said.
std::vector<std::string> SharedMemoryGroup::exchange(c10d::Store &store,
                                                     const std::string &what,
                                                     const std::string &mine) {
  auto key = [&](int r) { return what + "/" + std::to_string(r); };
  auto pause = std::chrono::milliseconds(1);
  Clock::time_point deadline = Clock::now() + meetingTimeout;
  std::vector<std::string> said;
  try {
    store.set(key(rank), std::vector<uint8_t>(mine.begin(), mine.end()));
    for (int r = 0; r < size; ++r) {
      while (!store.check({key(r)})) {
        processes.check();
        if (Clock::now() > deadline)
          throw PeerFailure("rank " + std::to_string(r) +
                            " left while memory was being shared");
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, lookAround);
      }
      std::vector<uint8_t> bytes = store.get(key(r));
      said.emplace_back(bytes.begin(), bytes.end());
    }
  } catch (const PeerFailure &) {
    throw;
  } catch (const std::exception &error) {
    throw PeerFailure("the ranks' meeting point was lost while memory was "
                      "being shared");
  }
  return said;
}

void SharedMemoryGroup::awaitSlowly(const AwaitedTransfer &awaited,
                                    const std::function<bool()> &ready) {
  Awaiting waits(watch().progress(), awaited.channel, awaited.number,
                 awaited.name);
  std::atomic<uint32_t> &asleep = block(rank).channels[awaited.channel].asleep;
  Clock::time_point begin = Clock::now(), look = begin + lookAround;
  choosePolicy(begin);
  auto yielding = policy.load(std::memory_order_relaxed)->yielding;
  bool told = false;
  while (!ready()) {
    Clock::time_point now = Clock::now();
    bool looks = now >= look;
    try {
      checkFailures();
      if (looks)
        checkPeers();
    } catch (const PeerFailure &) {
      // What it did before it failed or ended counts.
      if (ready())
        return;
      throw;
    }
    if (looks) {
      look = now + lookAround;
      if (now - begin > patience.limit)
        throw watch().failure(awaited);
      if (!told && now - begin > patience.noteAfter) {
        told = true;
        watch().note(awaited);
      }
    }
    if (now - begin < yielding) {
      sched_yield();
      continue;
    }
    // Either this rank sees what is announced, or the other sees it asleep.
    asleep.store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready())
      futexWait(asleep, 1, lookAround);
    asleep.store(0, std::memory_order_relaxed);
  }
}

void SharedMemoryGroup::announce(unsigned channel) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int r = 0; r < size; ++r) {
    std::atomic<uint32_t> &asleep = block(r).channels[channel].asleep;
    if (r != rank && asleep.load(std::memory_order_relaxed) &&
        asleep.exchange(0))
      futexWake(asleep);
  }
}

void SharedMemoryGroup::fail(const std::string &why) {
  std::lock_guard<std::mutex> lock(failing);
  ControlBlock &mine = block(rank);
  if (mine.failed.load(std::memory_order_relaxed))
    return;
  size_t length = std::min(why.size(), ControlBlock::reasonBytes - 1);
  std::memcpy(mine.reason, why.data(), length);
  mine.reason[length] = 0;
  mine.failed.store(1, std::memory_order_release);
  for (unsigned channel = 0; channel < numChannels; ++channel)
    announce(channel);
}

void SharedMemoryGroup::checkFailures() const {
  for (int r = 0; r < size; ++r)
    if (block(r).failed.load(std::memory_order_acquire))
      throw PeerFailure(block(r).reason);
}

void SharedMemoryGroup::checkPeers() const {
  try {
    processes.check();
  } catch (const PeerFailure &) {
    // What it said before it ended says more.
    checkFailures();
    throw;
  }
}

} // namespace fsdp
