#ifndef FSDP_RUNTIME_TRAIN_WEIGHTS_H
#define FSDP_RUNTIME_TRAIN_WEIGHTS_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "plan/PlanTypes.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

class SafeTensors;

/// Inputs that have the same value in every step. Their bytes serve other
/// values between runs, so they are set again before each.
class RepeatedInputs {
public:
  void set(int program, Executor &executor) const;

  struct Input {
    int program;
    size_t input;
    const char *data; // in `file`
  };
  std::shared_ptr<const SafeTensors> file;
  std::vector<Input> inputs;
};

/// Reads this rank's part of every parameter, buffer and constant from a
/// weights file, and finds there the inputs that repeat. Rows past a tensor's
/// end stay zero; so does optimizer state. Throws Error listing everything that
/// the file lacks or has in another shape or dtype.
RepeatedInputs loadWeights(const plan::PlanT &plan, const std::string &path,
                           int rank, Executor &executor);

/// Writes parameters (gathered from all ranks) and rank 0's persistent buffers
/// under their state_dict() names, every alias an entry of its own. Called by
/// all ranks; rank 0 writes. `onPartialFile` is told the unfinished file, and
/// "" when it is done.
void saveWeights(const plan::PlanT &plan, const std::string &path,
                 Communicator &communicator, Executor &executor,
                 const std::function<void(const std::string &)> &onPartialFile);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_WEIGHTS_H
