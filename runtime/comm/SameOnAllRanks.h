#ifndef FSDP_RUNTIME_COMM_SAMEONALLRANKS_H
#define FSDP_RUNTIME_COMM_SAMEONALLRANKS_H

#include "comm/Communicator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// Something that each rank finds by itself, as in a file.
struct Found {
  std::string what; // "samples in data.safetensors"
  uint64_t value;
};

/// Throws Error, on all ranks alike, that names the first difference, its
/// rank, and hosts where there are several. Collective: all ranks find things
/// of the same kinds.
void requireSameOnAllRanks(Communicator &communicator,
                           const std::vector<Found> &found);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SAMEONALLRANKS_H
