#ifndef FSDP_RUNTIME_EXECUTOR_EXECUTOR_H
#define FSDP_RUNTIME_EXECUTOR_EXECUTOR_H

#include "comm/Communicator.h"
#include "executor/Counters.h"
#include "plan/PlanTypes.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// How a program's streams run on the host: all in the calling thread, or a
/// thread for each that has collectives.
enum class HostStreamKind { Inline, Threads };

struct ExecutorOptions {
  int64_t seed = 0;
  /// One random stream in program order, as eager PyTorch has.
  bool sequentialRandom = false;
  /// Fill what is not alive with NaN, and guard the ends of ranges.
  bool poison = false;
  HostStreamKind hostStreams = HostStreamKind::Inline;
};

/// One rank: its memory, and the plan's programs ready to run on it. Everything
/// that can be refused is refused by the constructor. Used by one thread.
class Executor {
public:
  /// `plan` and `communicator` must outlive it. Throws Error.
  Executor(const plan::PlanT &plan, Communicator &communicator,
           const ExecutorOptions &options);
  ~Executor();

  /// The index of a program, or -1.
  int program(const std::string &name) const;

  /// Runs a program; `step` is 1 in the first, `microBatch` 0 in the first of
  /// each step. Throws Error naming the operator and its place in the model.
  void run(int program, uint64_t step, uint64_t microBatch = 0);

  /// The first byte of a state's local part, laid out by its strides.
  void *stateData(size_t state);
  /// Gives an input its value, from row-major memory; it stays until other
  /// values reuse its bytes, so inputs are set before each run.
  void setInput(int program, size_t input, const void *rowMajor);
  /// A scalar output of the program's last run.
  double output(int program, size_t output) const;

  /// With set, each run sums the squares of the gradients it hands to updates.
  void setGradientNorm(bool enabled);
  /// This rank's share of the squared gradient norm of the last run: the shards
  /// it holds, and on rank 0 what every rank holds.
  double squaredGradientNorm() const;

  const Counters &counters() const;

private:
  struct Implementation;
  std::unique_ptr<Implementation> impl;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_EXECUTOR_H
