#ifndef FSDP_RUNTIME_EXECUTOR_EXECUTOR_H
#define FSDP_RUNTIME_EXECUTOR_EXECUTOR_H

#include "executor/Backend.h"
#include "executor/Counters.h"
#include "plan/PlanTypes.h"
#include "trace/LastCommands.h"

#include <ATen/core/Tensor.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

struct ExecutorOptions {
  int64_t seed = 0;
  /// One random stream in program order, as eager PyTorch has.
  bool sequentialRandom = false;
  /// Fill what is not alive with NaN, and guard the ends of ranges. On a host
  /// backend alone.
  bool poison = false;
  /// Capture a device's programs as graphs and replay those.
  bool graph = false;
  /// Takes what people should know, in a sentence without its full stop.
  std::function<void(const std::string &)> note = {};
};

/// One rank: its memory, and the plan's programs ready to run on it. Everything
/// that can be refused is refused by the constructor. Used by one thread.
class Executor {
public:
  /// `plan` and `backend` must outlive it. Throws Error.
  Executor(const plan::PlanT &plan, Backend &backend,
           const ExecutorOptions &options);
  ~Executor();

  /// Runs a program, or launches it where the device is not the host; `step` is
  /// 1 in the first, `microBatch` 0 in the first of each step. Throws Error
  /// naming the operator and its place in the model.
  void run(int program, uint64_t step, uint64_t microBatch = 0);

  /// A state's local part in the device's own memory, or the host's where it is
  /// offloaded; undefined for what lies in a flat state.
  at::Tensor state(size_t state);
  /// Gives an input its value, from row-major memory of the host, which is read
  /// before it returns, or of the device (`onDevice`), which the next run
  /// reads. It stays until other values reuse its bytes, so inputs are set
  /// before each run.
  void setInput(int program, size_t input, const void *rowMajor,
                bool onDevice = false);
  /// Where an input is to be written, row-major, in place of setInput(); null
  /// where it has other strides or the host cannot write it.
  char *inputMemory(int program, size_t input) const;
  /// The outputs of the last run, or of the one before it, that are numbers;
  /// waits until that run is over.
  std::vector<double> outputs(unsigned runsAgo = 0);
  /// Row-major copies of those that are not, of the program that ran last.
  std::vector<at::Tensor> tensorOutputs(int program);

  /// Learning rates of later runs, by parameter group, in place of the plan's;
  /// none: the plan's.
  void setLearningRates(std::vector<double> rates);

  /// With set, each run sums the squares of the gradients it hands to updates.
  void setGradientNorm(bool enabled);
  /// This rank's share of the squared gradient norm of the last run: the shards
  /// it holds, and on rank 0 what every rank holds.
  double squaredGradientNorm() const;
  /// What it is the sum of, by unit of the plan; the last is of no unit.
  const std::vector<double> &squaredGradientNorms() const;

  /// Runs from now on are recorded, and so is what streams do beside them;
  /// null: they are not. A run that is recorded is no graph, and on a GPU the
  /// host waits until it is over.
  void setRecorder(trace::Recorder *recorder);

  const Counters &counters() const;

  /// Of the runs so far; a device's graphs are not taken apart.
  const trace::LastCommands &lastCommands() const;

private:
  struct Implementation;
  std::unique_ptr<Implementation> impl;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_EXECUTOR_H
