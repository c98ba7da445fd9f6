#ifndef FSDP_RUNTIME_TRAIN_REPEATEDINPUTS_H
#define FSDP_RUNTIME_TRAIN_REPEATEDINPUTS_H

#include "executor/Executor.h"
#include "state/LoadWeights.h"

#include <vector>

namespace fsdp {

/// Inputs that have the same value in every step. Their bytes serve other
/// values between runs, so they are set again before each.
class RepeatedInputs {
public:
  explicit RepeatedInputs(const plan::PlanT &plan);

  /// What the weights are to have for them. This outlives it.
  std::vector<WholeTensor> tensors();
  void set(int program, Executor &executor) const;

private:
  struct Input {
    int program;
    size_t index;
    NamedTensor tensor;
    std::vector<char> data; // row-major
  };
  std::vector<Input> inputs;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_REPEATEDINPUTS_H
