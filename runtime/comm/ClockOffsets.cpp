#include "comm/ClockOffsets.h"

#include "comm/Gather.h"

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

} // namespace fsdp
