#ifndef FSDP_RUNTIME_TRAIN_STEPWORK_H
#define FSDP_RUNTIME_TRAIN_STEPWORK_H

#include "plan/PlanTypes.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// The operations that one rank does in a step: those of cost::workOf(), of all
/// micro-batches.
struct StepWork {
  /// All of them, and those of the model alone: without what is computed again
  /// for backward.
  double flops = 0, modelFlops = 0;
  /// Seconds that they take at the peak; 0: that is not known.
  double peakSeconds = 0, modelPeakSeconds = 0;
  std::string peakFrom; // who says what the peak is

  /// Operations per second of a step that is as fast as can be.
  double peakFlops() const { return peakSeconds > 0 ? flops / peakSeconds : 0; }
};

/// The programs that a step runs, by number, and how often each: its turns, of
/// which `step` is the first, and that of the micro-batches before.
std::vector<std::pair<int, uint64_t>> programsOfStep(const plan::PlanT &plan,
                                                     int step);

/// `peakFlops`: operations per second that a rank could do; none: the rates of
/// matrix products, by dtype, of the cluster that the plan was compiled for.
/// `step` is the number of the program that is run as the step.
StepWork workOfStep(const plan::PlanT &plan, int step,
                    std::optional<double> peakFlops);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STEPWORK_H
