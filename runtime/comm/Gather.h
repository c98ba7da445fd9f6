#ifndef FSDP_RUNTIME_COMM_GATHER_H
#define FSDP_RUNTIME_COMM_GATHER_H

#include "comm/Communicator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

// What ranks tell each other beside a plan's collectives. All are collective,
// on channel 0, and work on one rank too.

/// Every rank's number, by rank.
std::vector<int64_t> gatherNumbers(Communicator &communicator, int64_t mine);

/// Everybody's bytes, by rank, on rank `root` alone; empty elsewhere. A rank
/// may have any number of them.
std::vector<std::vector<char>> gatherBytes(Communicator &communicator,
                                           const std::vector<char> &mine,
                                           int root);

/// Rank 0's text, on all ranks.
std::string textOfRank0(Communicator &communicator, const std::string &mine);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GATHER_H
