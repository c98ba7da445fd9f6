#ifndef FSDP_RUNTIME_EXECUTOR_OPERATORCALL_H
#define FSDP_RUNTIME_EXECUTOR_OPERATORCALL_H

#include "executor/AtenOp.h"
#include "executor/Casts.h"
#include "executor/Counters.h"
#include "executor/OperatorMemory.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// An operator of a program with its operands, and the places of its results.
class OperatorCall {
public:
  struct Output {
    size_t result; // of the operator's results
    std::string name;
    at::Tensor planned;
    /// Bytes from its address that are its own; 0: the kernel must not write
    /// there while it runs.
    uint64_t bytes;
  };

  /// `op` is bound to its operands.
  OperatorCall(AtenOp op, std::vector<Output> outputs, Scratch &scratch)
      : op(std::move(op)), outputs(std::move(outputs)), memory(scratch) {}

  const std::string &description() const { return op.description(); }
  const char *hostRead() const { return op.hostRead(); }
  /// What it allocates has no place of its own: see OperatorMemory.
  bool keepsMemory() const { return memory.keeps(); }

  /// What it casts, where it is nothing but a cast.
  std::optional<Cast> cast() const;

  /// Runs the operator; its results are then where the plan has them. Throws
  /// Error when the kernel does, or gives what the plan does not expect.
  void run(const std::vector<double> &scalars, Counters &counters);

private:
  void runOnce(const std::vector<double> &scalars, Counters &counters);
  /// In the first run.
  void expectOutputs();
  void learnOutputs();
  /// Copies what did not land at its planned address.
  void bringHome(Counters &counters);
  void land(const at::Tensor &result, const at::Tensor &planned,
            Counters &counters);

  AtenOp op;
  std::vector<Output> outputs;
  OperatorMemory memory;
  std::vector<at::Tensor> results;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_OPERATORCALL_H
