// A plan's predicted trace: fsdp-translate --plan-to-trace.
#ifndef FSDP_RUNTIME_TRACE_TRACEOFPLAN_H
#define FSDP_RUNTIME_TRACE_TRACEOFPLAN_H

#include "plan/PlanFile.h"
#include "trace/TraceFile.h"

namespace fsdp::trace {

/// The cluster to predict for: the given one, where it is not "", or the one
/// that the plan was compiled for. Throws ClusterError.
cost::Cluster clusterFor(const plan::PlanT &plan, const std::string &given);

/// What a trace file says of the plan it is of, and of its predictions.
Metadata metadataOf(const plan::LoadedPlan &loaded,
                    const cost::Cluster &cluster);

/// One step, as it is predicted on a cluster. All ranks are alike: the file has
/// one of them, or with `allRanks` a process for each. Throws PlanError.
std::string predictedTrace(const plan::LoadedPlan &loaded,
                           const cost::Cluster &cluster, bool allRanks);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_TRACEOFPLAN_H
