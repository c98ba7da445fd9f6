#ifndef FSDP_RUNTIME_SESSION_FEDINPUTS_H
#define FSDP_RUNTIME_SESSION_FEDINPUTS_H

#include "Error.h"
#include "executor/Executor.h"
#include "train/Variants.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// Tensors by name, as a caller's loop has them.
using Batch = std::vector<std::pair<std::string, at::Tensor>>;

/// A batch that is not what the plan reads. Nothing has happened yet.
struct BatchError : Error {
  explicit BatchError(const std::string &message) : Error(E::Batch, message) {}
  size_t batch = 0; // of those that were given
};

/// A number that is none, in a tensor of a caller.
struct FoundNaN {
  std::string input;
  size_t batch; // of those that were given
  int64_t row;  // along dimension 0 of its tensor; -1: it has none
};

/// What a program, or several with the same inputs, read in one step, from the
/// tensors of a caller. Of a program's variants the tensors' shapes choose one.
class FedInputs {
public:
  /// Of the program `name` and its variants. The plan outlives it. Tensors lie
  /// on the CPU, or on `device`, where the plan runs.
  FedInputs(const plan::PlanT &plan, const char *name, uint64_t microBatches,
            c10::Device device)
      : variants(plan, name), microBatches(microBatches), device(device) {}

  /// Takes a step's tensors: a batch for each micro-batch, or one for all of
  /// them, whose dimension 0 has them one after the other. They have all
  /// inputs that a data set would give; those that repeat keep their value
  /// where they are not named. A program that reads no data takes all of its
  /// inputs, or no batch. Throws BatchError.
  void take(const std::vector<Batch> &batches);
  /// The number in the plan of the program that all ranks' tensors choose: see
  /// Variants::agree().
  int agree(Communicator &communicator) const {
    return variants.agree(communicator, chosen);
  }
  /// Gives the tensors of a micro-batch to a program.
  void set(uint64_t microBatch, int program, Executor &executor) const;
  void drop() { tensors.clear(); }
  /// The first one in what was taken and is not dropped.
  std::optional<FoundNaN> findNaN() const;

private:
  void takeOne(const Batch &batch, uint64_t first, uint64_t count);
  at::Tensor checked(const std::string &name, const at::Tensor &tensor,
                     const plan::ValueT &value, uint64_t count) const;
  bool fits(const plan::ProgramT &program, const Batch &batch) const;

  const Variants variants;
  const uint64_t microBatches;
  const c10::Device device;
  size_t chosen = 0; // of the variants
  size_t given = 0;  // batches
  // By micro-batch and input; undefined: it repeats.
  std::vector<std::vector<at::Tensor>> tensors;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_FEDINPUTS_H
