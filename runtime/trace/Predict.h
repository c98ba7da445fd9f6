// When the commands of a plan are predicted to run.
#ifndef FSDP_RUNTIME_TRACE_PREDICT_H
#define FSDP_RUNTIME_TRACE_PREDICT_H

#include "cost/Cluster.h"
#include "trace/ProgramRun.h"

namespace fsdp::trace {

/// How long a program is predicted to take, and of what.
struct Prediction {
  ProgramRun run;         // begins at 0
  double stepSeconds = 0; // until all streams are through
  double exposedSeconds = 0, communicationSeconds = 0;
};

/// The compiler's timeline of the commands: one runs when those before it on
/// its stream are through and, behind a wait, when what it waits for is. All
/// ranks are as fast as this one. The plan must have been checked.
Prediction predict(const plan::PlanT &plan, uint32_t program,
                   const cost::Cluster &cluster);

/// The runs of one step, in their order: that of each micro-batch. The first
/// begins at `begin`. Throws PlanError where the plan has no step.
std::vector<ProgramRun> predictStep(const plan::PlanT &plan,
                                    const cost::Cluster &cluster,
                                    int64_t begin);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_PREDICT_H
