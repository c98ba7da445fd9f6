// What a plan does and why, in words: fsdp-opt --fsdp-explain.
#ifndef FSDP_RUNTIME_TRACE_EXPLAIN_H
#define FSDP_RUNTIME_TRACE_EXPLAIN_H

#include "cost/Cluster.h"
#include "plan/PlanTypes.h"

#include <ostream>
#include <string>

namespace fsdp::trace {

/// Writes, of each program of a plan,
///
/// - `peak`: what is alive when most memory is in use, by kind and tensor;
/// - `exposed`: what keeps the compute stream, the worst first, why, and what
///   would help by how much;
/// - anything else names a unit (`root`: the whole model's own): its shards,
///   its collectives and what they keep waiting.
///
/// Throws PlanError, with the units, where there is none of that name. The plan
/// must have been checked.
void explain(const plan::PlanT &plan, const cost::Cluster &cluster,
             const std::string &what, std::ostream &out);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_EXPLAIN_H
