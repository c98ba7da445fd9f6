#include "train/FirstProblem.h"

#include "comm/Gather.h"

namespace fsdp {

std::string firstProblem(Communicator &communicator, const std::string &mine) {
  if (communicator.size() == 1)
    return mine;
  std::string first;
  std::vector<std::vector<char>> all =
      gatherBytes(communicator, {mine.begin(), mine.end()}, 0);
  for (size_t rank = 0; rank < all.size() && first.empty(); ++rank)
    if (!all[rank].empty())
      first = "rank " + std::to_string(rank) + ": " +
              std::string(all[rank].begin(), all[rank].end());
  return textOfRank0(communicator, first);
}

} // namespace fsdp
