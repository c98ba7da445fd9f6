#ifndef FSDP_RUNTIME_EXECUTOR_SCALARS_H
#define FSDP_RUNTIME_EXECUTOR_SCALARS_H

#include "plan/PlanTypes.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace fsdp {

using ScalarList = std::vector<std::unique_ptr<plan::ScalarT>>;

/// What scalars depend on.
struct StepContext {
  uint64_t step = 1; // 1 in the first
  std::vector<double> hyperparameters;
  std::function<double(int)> valueOfState = {};
  /// The hyperparameters of an earlier step, where this process has not run it;
  /// NaN where they are not known.
  std::function<std::vector<double>(uint64_t step)> before = {};
  int rank = 0; // of this process
};

/// The values of `scalars` in a step, in double as Python computes them.
/// `former` are those of the step before; none: it is the first.
std::vector<double> evaluateScalars(const ScalarList &scalars,
                                    const StepContext &context,
                                    const std::vector<double> &former = {});

/// Scalars from step to step. Those that follow from the step before are kept;
/// where it was another one, as after a checkpoint is resumed, the steps from
/// the first on are gone through. Throws Error where such a number is NaN then.
class StepScalars {
public:
  /// `scalars` must outlive it.
  explicit StepScalars(const ScalarList &scalars);
  void beginStep(const StepContext &context);
  /// In the step that began last.
  const std::vector<double> &values() const { return now; }

private:
  void checkKnown() const;

  const ScalarList &scalars;
  bool followsFormer;
  uint64_t step = 0; // that `now` is of
  std::vector<double> former, now;
};

/// The plan's hyperparameters in step `step`. Throws Error when its schedule is
/// shorter than that.
std::vector<double> hyperparameters(const plan::PlanT &plan, uint64_t step);

/// Those of them that are learning rates, one per parameter group.
std::vector<double> learningRates(const plan::PlanT &plan, uint64_t step);

/// Gives those of `values`, which hyperparameters() gave, that are learning
/// rates the given ones, one per parameter group.
void replaceLearningRates(const plan::PlanT &plan,
                          const std::vector<double> &rates,
                          std::vector<double> &values);

/// The number of steps that the plan's schedule covers; 0: any.
uint64_t scheduledSteps(const plan::PlanT &plan);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_SCALARS_H
