// When the commands of a plan are predicted to run.
#ifndef FSDP_RUNTIME_TRACE_PREDICT_H
#define FSDP_RUNTIME_TRACE_PREDICT_H

#include "cost/Cluster.h"
#include "trace/ProgramRun.h"

#include <set>

namespace fsdp::trace {

/// A stretch in which communication keeps the compute stream; seconds.
struct Exposed {
  uint32_t command; // the collective that runs there, or the wait
  double begin, end;
};

/// How long a program is predicted to take, and of what.
struct Prediction {
  ProgramRun run;         // begins at 0
  double stepSeconds = 0; // until all streams are through
  double exposedSeconds = 0, communicationSeconds = 0;
  std::vector<Exposed> exposed;     // in the order of time
  std::vector<double> begins, ends; // of each command, seconds
};

/// What commands take, seconds. The plan must have been checked.
std::vector<double> secondsOf(const plan::PlanT &plan,
                              const plan::ProgramT &program,
                              const cost::Cluster &cluster);

/// Follows a program whose commands take `seconds`. Those of `early` start as
/// soon as what they read is there and their stream is free, whatever else the
/// plan has them wait for.
Prediction follow(const plan::ProgramT &program,
                  const std::vector<double> &seconds,
                  const std::set<uint32_t> &early = {});

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
