#ifndef FSDP_RUNTIME_STATE_LOADWEIGHTS_H
#define FSDP_RUNTIME_STATE_LOADWEIGHTS_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "state/StateMap.h"

#include <string>
#include <vector>

namespace fsdp {

/// Where a run's first values come from.
struct StartOptions {
  std::string weights; // see WeightFiles; empty: none
  /// Rank 0 alone reads the file, and sends each rank its part.
  bool fromRank0 = false;
  int64_t seed = 0; // of what is drawn
  /// A checkpoint gives all that it has: the rest alone is read.
  bool resumes = false;
};

/// A tensor of the weights that is no state: every rank has all of it.
struct WholeTensor : NamedTensor {
  char *data; // where it goes
};

/// Gives every parameter, buffer and constant its first value, each rank its
/// part of it and no more, and reads `others`. States that have a recipe follow
/// it unless the file has them: all of them or none. Rows past a tensor's end
/// stay zero; so does optimizer state. Called by all ranks. Returns how many
/// states followed their recipe. Throws Error listing everything that the file
/// lacks or has in another shape or dtype.
size_t loadWeights(const plan::PlanT &plan, const StartOptions &options,
                   Communicator &communicator, Executor &executor,
                   const std::vector<WholeTensor> &others = {});

} // namespace fsdp

#endif // FSDP_RUNTIME_STATE_LOADWEIGHTS_H
