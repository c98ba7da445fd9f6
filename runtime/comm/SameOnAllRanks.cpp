#include "comm/SameOnAllRanks.h"

#include "Error.h"
#include "comm/Gather.h"

namespace fsdp {

void requireSameOnAllRanks(Communicator &communicator,
                           const std::vector<Found> &found) {
  for (const Found &thing : found) {
    std::vector<int64_t> all =
        gatherNumbers(communicator, static_cast<int64_t>(thing.value));
    for (size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank] != all[0])
        throw Error(E::RanksDiffer,
                    "rank 0 finds " +
                        std::to_string(static_cast<uint64_t>(all[0])) + " " +
                        thing.what + ", rank " + std::to_string(rank) + " " +
                        std::to_string(static_cast<uint64_t>(all[rank])) +
                        "; give all ranks the same files");
  }
}

} // namespace fsdp
