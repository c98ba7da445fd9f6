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
};

/// The values of `scalars` in a step, in double as Python computes them.
std::vector<double> evaluateScalars(const ScalarList &scalars,
                                    const StepContext &context);

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
