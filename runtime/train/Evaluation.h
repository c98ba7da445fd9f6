#ifndef FSDP_RUNTIME_TRAIN_EVALUATION_H
#define FSDP_RUNTIME_TRAIN_EVALUATION_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "train/Batches.h"
#include "train/RepeatedInputs.h"
#include "train/SampleOutputs.h"
#include "train/StepReport.h"

namespace fsdp {

/// Runs the program "eval" on all batches, with the weights as they are after
/// `step`. Returns the means of its outputs over batches and ranks, whose names
/// begin with "eval_". Collective. `ofSamples`: takes what is of each sample;
/// null: nobody does.
NamedScalars evaluate(const plan::PlanT &plan, uint64_t step, Batches &batches,
                      const RepeatedInputs &repeated,
                      Communicator &communicator, Executor &executor,
                      SampleOutputs *ofSamples);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_EVALUATION_H
