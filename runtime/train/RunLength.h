#ifndef FSDP_RUNTIME_TRAIN_RUNLENGTH_H
#define FSDP_RUNTIME_TRAIN_RUNLENGTH_H

#include "state/CheckpointFormat.h"
#include "train/Batches.h"
#include "train/RunOptions.h"
#include "train/StepReport.h"

namespace fsdp {

/// The steps of a run: what the options say, else the plan's default; without
/// `data` (null) an epoch is the whole run, or a step where epochs are counted.
/// `from` is where a run before it stopped, or null: this one goes on with the
/// first sample that was not read. Throws Error where neither says how many, an
/// epoch fills no step, or the learning-rate table is too short.
RunLength findLength(const plan::PlanT &plan, const RunOptions &options,
                     const Batches *data,
                     const checkpoint::RunPosition *from = nullptr);

/// The position after a step, of which everything but losses and metrics is
/// known.
checkpoint::RunPosition positionAfter(uint64_t step, const plan::PlanT &plan,
                                      const RunLength &length,
                                      const Batches *data, int64_t seed);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_RUNLENGTH_H
