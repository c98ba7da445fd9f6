#ifndef FSDP_RUNTIME_EXECUTOR_UPDATES_H
#define FSDP_RUNTIME_EXECUTOR_UPDATES_H

#include "executor/LoadedProgram.h"

#include <vector>

namespace fsdp {

/// Runs a rank's updates, and sums the squares of the gradients that they get
/// where a norm is asked for.
class Updates {
public:
  /// `ownMemory`: programs run on a device whose memory the host cannot read.
  Updates(size_t units, bool ownMemory) : units(units), ownMemory(ownMemory) {}

  /// Begins a run of a program: nothing is summed yet.
  void beginRun();
  /// Runs the update at `index`, and those that its launch includes. `streams`
  /// are those of the program, which gives the gradients.
  void run(LoadedProgram &program, size_t index, Streams &streams);

  void setGradientNorm(bool enabled) { gradientNorm = enabled; }
  bool hasGradientNorm() const { return gradientNorm; }
  /// Of the gradients since beginRun(): see Executor.
  double squaredNorm() const { return whole; }
  const std::vector<double> &squaredNorms() const { return byUnit; }

private:
  void addNorm(LoadedProgram::Update &update);
  void runTogether(LoadedProgram::Update *first, Streams &streams);

  size_t units;
  bool ownMemory, gradientNorm = false;
  double whole = 0;
  std::vector<double> byUnit;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_UPDATES_H
