#ifndef FSDP_RUNTIME_TRAIN_LOADWEIGHTS_H
#define FSDP_RUNTIME_TRAIN_LOADWEIGHTS_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "plan/PlanTypes.h"

#include <string>
#include <vector>

namespace fsdp {

/// Inputs that have the same value in every step. Their bytes serve other
/// values between runs, so they are set again before each.
class RepeatedInputs {
public:
  void set(int program, Executor &executor) const;

  struct Input {
    int program;
    size_t input;
    std::vector<char> data; // row-major
  };
  std::vector<Input> inputs;
};

/// Where a run's first values come from.
struct StartOptions {
  std::string weights; // see WeightFiles; empty: none
  /// Rank 0 alone reads the file, and sends each rank its part.
  bool fromRank0 = false;
  int64_t seed = 0; // of what is drawn
};

/// How a run started.
struct Start {
  RepeatedInputs repeated;
  /// States that have their first value from a recipe and not from a file.
  size_t initialised = 0;
};

/// Gives every parameter, buffer and constant its first value, each rank its
/// part of it and no more, and finds the inputs that repeat. States that have a
/// recipe follow it unless the file has them: all of them or none. Rows past a
/// tensor's end stay zero; so does optimizer state. Called by all ranks. Throws
/// Error listing everything that the file lacks or has in another shape or
/// dtype.
Start loadWeights(const plan::PlanT &plan, const StartOptions &options,
                  Communicator &communicator, Executor &executor);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_LOADWEIGHTS_H
