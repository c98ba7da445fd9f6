#include "comm/ClockOffsets.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sys/stat.h>

namespace fsdp {

/// Gathers that bound an offset: the luckiest of them counts.
static constexpr int gathers = 16;

HostClock hostClock() {
  HostClock clock;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // A time namespace may shift the clock.
  struct stat space = {};
  bool known = stat("/proc/self/ns/time", &space) == 0;
  if (!boot.empty())
    clock.host = std::hash<std::string>()(
        boot + " " + (known ? std::to_string(space.st_ino) : ""));
  clock.now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               Communicator::Clock::now().time_since_epoch())
        .count();
  };
  return clock;
}

/// Every rank's number, by rank.
static std::vector<int64_t> gatherNumbers(Communicator &communicator,
                                          int64_t mine) {
  std::vector<int64_t> all(communicator.size(), mine);
  if (communicator.size() > 1)
    communicator.allGather(&mine, all.data(), 1, plan::DType::Int64);
  return all;
}

std::vector<ClockOffset> clockOffsets(Communicator &communicator,
                                      const HostClock &clock) {
  std::vector<int64_t> hosts =
      gatherNumbers(communicator, static_cast<int64_t>(clock.host));
  std::vector<ClockOffset> offsets(communicator.size());
  auto sharesClock = [&](size_t rank) {
    return rank == 0 || (hosts[0] != 0 && hosts[rank] == hosts[0]);
  };
  bool oneHost = true;
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    oneHost = oneHost && sharesClock(rank);
  if (oneHost)
    return offsets;
  // How far rank 0's clock is ahead of mine at most, and mine of rank 0's: what
  // arrives was sent before.
  int64_t zeroAhead = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> ahead(hosts.size(), zeroAhead); // ranks of rank 0, there
  for (int i = 0; i < gathers; ++i) {
    communicator.barrier();
    std::vector<int64_t> sent = gatherNumbers(communicator, clock.now());
    int64_t now = clock.now();
    zeroAhead = std::min(zeroAhead, now - sent[0]);
    for (size_t rank = 0; rank < hosts.size(); ++rank)
      ahead[rank] = std::min(ahead[rank], now - sent[rank]);
  }
  // The offset of a rank r lies between -(rank 0's time - r's sent) and r's
  // time
  // - rank 0's sent.
  std::vector<int64_t> upper = gatherNumbers(communicator, zeroAhead);
  communicator.broadcast(ahead.data(), ahead.size(), plan::DType::Int64, 0);
  for (size_t rank = 1; rank < hosts.size(); ++rank)
    if (!sharesClock(rank)) {
      int64_t lower = -ahead[rank];
      offsets[rank] = {lower + (upper[rank] - lower) / 2,
                       (upper[rank] - lower + 1) / 2};
    }
  return offsets;
}

std::vector<std::vector<char>> gatherBytes(Communicator &communicator,
                                           const std::vector<char> &mine,
                                           int root) {
  constexpr size_t piece = 1 << 16;
  std::vector<int64_t> sizes =
      gatherNumbers(communicator, static_cast<int64_t>(mine.size()));
  size_t most = *std::max_element(sizes.begin(), sizes.end());
  bool keeps = communicator.rank() == root;
  std::vector<std::vector<char>> all(keeps ? sizes.size() : 0);
  std::vector<char> send(piece), received(piece * sizes.size());
  for (size_t at = 0; at < most; at += piece) {
    size_t end = std::min(mine.size(), at + piece);
    if (at < end)
      std::copy(mine.begin() + at, mine.begin() + end, send.begin());
    if (communicator.size() > 1)
      communicator.allGather(send.data(), received.data(), piece,
                             plan::DType::UInt8);
    else
      received = send;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      size_t size = sizes[rank], last = std::min(size, at + piece);
      if (at < last)
        all[rank].insert(all[rank].end(), received.begin() + rank * piece,
                         received.begin() + rank * piece + (last - at));
    }
  }
  return all;
}

} // namespace fsdp
