#include "comm/SameOnAllRanks.h"

#include "Error.h"
#include "comm/Gather.h"
#include "comm/HostProcess.h"

namespace fsdp {

/// On all ranks alike.
static std::string describeDifference(Communicator &communicator,
                                      const std::string &what,
                                      const std::vector<int64_t> &values,
                                      int rank) {
  std::string mine = hostName(), text;
  std::vector<std::string> hosts;
  for (const auto &host : gatherBytes(communicator, {mine.begin(), mine.end()},
                                      /*root=*/0))
    hosts.emplace_back(host.begin(), host.end());
  auto value = [&](int of) {
    return std::to_string(static_cast<uint64_t>(values[of]));
  };
  if (communicator.rank() == 0)
    text = rankAmong(hosts, 0) + " finds " + value(0) + " " + what + ", " +
           rankAmong(hosts, rank) + " " + value(rank) +
           "; give all ranks the same files";
  return textOfRank0(communicator, text);
}

void requireSameOnAllRanks(Communicator &communicator,
                           const std::vector<Found> &found) {
  for (const Found &thing : found) {
    std::vector<int64_t> all =
        gatherNumbers(communicator, static_cast<int64_t>(thing.value));
    for (size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank] != all[0])
        throw Error(E::RanksDiffer,
                    describeDifference(communicator, thing.what, all, rank));
  }
}

} // namespace fsdp
