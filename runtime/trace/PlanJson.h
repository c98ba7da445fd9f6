// A plan's facts for programs: fsdp-translate --plan-to-json.
#ifndef FSDP_RUNTIME_TRACE_PLANJSON_H
#define FSDP_RUNTIME_TRACE_PLANJSON_H

#include "cost/Cluster.h"
#include "plan/PlanFile.h"

#include <string>

namespace fsdp::trace {

/// One JSON object, which docs/report.md describes: where the plan comes from,
/// its states and units, what it was checked for, and for each program what it
/// is predicted to do on a cluster, the peak of its memory, and what
/// communication is exposed and why.
std::string planJson(const plan::LoadedPlan &loaded,
                     const cost::Cluster &cluster);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_PLANJSON_H
