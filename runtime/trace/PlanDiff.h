// What two plans differ in: fsdp-translate --plan-diff.
#ifndef FSDP_RUNTIME_TRACE_PLANDIFF_H
#define FSDP_RUNTIME_TRACE_PLANDIFF_H

#include "cost/Cluster.h"
#include "plan/PlanFile.h"

#include <ostream>

namespace fsdp::trace {

/// A plan with what it is priced on.
struct PricedPlan {
  const plan::LoadedPlan &loaded;
  cost::Cluster cluster;
};

/// Writes options, states, and for each program its commands, collectives,
/// bytes at the peak by kind, and predicted time: only what differs. A plan
/// compared with itself is one line.
void printDiff(const PricedPlan &before, const PricedPlan &after,
               std::ostream &out);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_PLANDIFF_H
