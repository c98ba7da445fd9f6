#include "train/RunLength.h"

#include "Error.h"
#include "executor/Scalars.h"

#include <algorithm>

namespace fsdp {

checkpoint::RunPosition positionAfter(uint64_t step, const plan::PlanT &plan,
                                      const RunLength &length,
                                      const Batches *data, int64_t seed) {
  checkpoint::RunPosition position;
  position.step = step;
  position.seed = seed;
  position.epoch = length.epochOf(step + 1);
  if (data) {
    position.samplesInEpoch =
        length.placeOf(step + 1) * samplesOfStep(plan, *data);
    position.samples = data->samples();
  }
  return position;
}

RunLength findLength(const plan::PlanT &plan, const RunOptions &options,
                     const Batches *data, const checkpoint::RunPosition *from) {
  RunLength length;
  uint64_t microBatches = plan.micro_batches;
  // Batches without end are one epoch, as no data is.
  bool hasEpochs = data && data->hasEpochs();
  length.stepsPerEpoch = hasEpochs ? data->perEpoch() / microBatches : 1;
  if (!length.stepsPerEpoch)
    throw Error(E::TooFewSamples,
                "data in " + data->path() + " has " +
                    std::to_string(data->perEpoch()) +
                    " batches of all ranks, fewer than the " +
                    std::to_string(microBatches) +
                    " micro-batches of a step; use more data, fewer ranks or "
                    "fewer micro-batches");
  if (from)
    length.done = from->step;
  if (from && hasEpochs) {
    uint64_t each = samplesOfStep(plan, *data);
    uint64_t read = from->epoch * length.stepsPerEpoch +
                    (from->samplesInEpoch + each - 1) / each;
    length.ahead = static_cast<int64_t>(read - from->step);
  }
  auto epochs = [&](uint64_t n) {
    if (data && !hasEpochs)
      throw Error(E::RunLength,
                  "the loader has no length, so an epoch has none; give "
                  "--steps");
    if (n > INT64_MAX / length.stepsPerEpoch)
      throw Error(E::RunLength,
                  std::to_string(n) + " epochs are too many steps to count");
    int64_t steps = n * length.stepsPerEpoch - length.ahead;
    return static_cast<uint64_t>(std::max<int64_t>(steps, 0));
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
    throw Error(E::RunLength,
                "the plan has no default length; pass --steps or --epochs");
  uint64_t table = scheduledSteps(plan);
  if (table && length.steps > table)
    throw Error(E::TooFewSamples,
                "the run has " + std::to_string(length.steps) +
                    " steps, the plan's schedule " + std::to_string(table) +
                    "; train for fewer, or export with a longer schedule");
  if (!hasEpochs && length.steps)
    length.stepsPerEpoch = options.epochs || plan.epochs ? 1 : length.steps;
  return length;
}

} // namespace fsdp
