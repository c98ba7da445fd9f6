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
  /// `streams` are those of the program, which gives the gradient.
  void run(LoadedProgram::Update &update, Streams &streams);

  void setGradientNorm(bool enabled) { gradientNorm = enabled; }
  bool hasGradientNorm() const { return gradientNorm; }
  /// Of the gradients since beginRun(): see Executor.
  double squaredNorm() const { return whole; }
  const std::vector<double> &squaredNorms() const { return byUnit; }

private:
  static double squaredNormOf(LoadedProgram::Update &update);

  size_t units;
  bool ownMemory, gradientNorm = false;
  double whole = 0;
  std::vector<double> byUnit;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_UPDATES_H
