#include "train/RunLength.h"

#include "Error.h"
#include "executor/Scalars.h"

namespace fsdp {

RunLength findLength(const plan::PlanT &plan, const RunOptions &options,
                     const Batches *data) {
  RunLength length;
  uint64_t microBatches = plan.micro_batches;
  length.stepsPerEpoch = data ? data->perEpoch() / microBatches : 1;
  if (!length.stepsPerEpoch)
    throw Error("data in " + data->path() + " has " +
                std::to_string(data->perEpoch()) +
                " batches of all ranks, fewer than the " +
                std::to_string(microBatches) +
                " micro-batches of a step; use more data, fewer ranks or "
                "fewer micro-batches");
  auto epochs = [&](uint64_t n) {
    if (n > UINT64_MAX / length.stepsPerEpoch)
      throw Error(std::to_string(n) + " epochs are too many steps to count");
    return n * length.stepsPerEpoch;
  };
  if (options.steps)
    length.steps = *options.steps;
  else if (options.epochs)
    length.steps = epochs(*options.epochs);
  else if (plan.steps)
    length.steps = plan.steps;
  else if (plan.epochs)
    length.steps = epochs(plan.epochs);
  else
    throw Error("the plan has no default length; pass --steps or --epochs");
  uint64_t table = learningRateSteps(plan);
  if (!plan.learning_rate_table.empty() && length.steps > table)
    throw Error("the run has " + std::to_string(length.steps) +
                " steps, the plan's learning-rate table " +
                std::to_string(table) +
                "; train for fewer, or export with a longer schedule");
  if (!data && length.steps)
    length.stepsPerEpoch = options.epochs || plan.epochs ? 1 : length.steps;
  return length;
}

} // namespace fsdp
