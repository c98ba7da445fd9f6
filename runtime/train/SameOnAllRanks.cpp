#include "train/SameOnAllRanks.h"

#include "Error.h"

namespace fsdp {

void requireSameOnAllRanks(Communicator &communicator,
                           const std::vector<Found> &found) {
  if (communicator.size() == 1 || found.empty())
    return;
  std::vector<uint64_t> mine, all(found.size() * communicator.size());
  for (const Found &thing : found)
    mine.push_back(thing.value);
  communicator.allGather(mine.data(), all.data(),
                         mine.size() * sizeof(uint64_t), plan::DType::UInt8);
  for (int rank = 1; rank < communicator.size(); ++rank)
    for (size_t i = 0; i < found.size(); ++i)
      if (uint64_t other = all[rank * found.size() + i]; other != all[i])
        throw Error("rank 0 finds " + std::to_string(all[i]) + " " +
                    found[i].what + ", rank " + std::to_string(rank) + " " +
                    std::to_string(other) + "; give all ranks the same files");
}

} // namespace fsdp
