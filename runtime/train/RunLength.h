#ifndef FSDP_RUNTIME_TRAIN_RUNLENGTH_H
#define FSDP_RUNTIME_TRAIN_RUNLENGTH_H

#include "train/Batches.h"
#include "train/RunOptions.h"
#include "train/StepReport.h"

namespace fsdp {

/// The steps of a run: what the options say, else the plan's default; without
/// `data` (null) an epoch is the whole run, or a step where epochs are counted.
/// Throws Error where neither says how many, an epoch fills no step, or the
/// learning-rate table is too short.
RunLength findLength(const plan::PlanT &plan, const RunOptions &options,
                     const Batches *data);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_RUNLENGTH_H
