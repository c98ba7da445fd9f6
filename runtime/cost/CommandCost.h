// What the commands of a plan cost.
#ifndef FSDP_RUNTIME_COST_COMMANDCOST_H
#define FSDP_RUNTIME_COST_COMMANDCOST_H

#include "cost/Cost.h"

namespace fsdp::cost {

/// The name by which the compiler calls an operator: "mm", "add.Tensor",
/// "fsdp_mlir::flash_attention".
std::string calleeOf(const plan::AtenT &aten);

/// The work of a call that is no view. The plan must have been checked.
Work workOf(const plan::ProgramT &program, const plan::AtenT &aten);

/// Bytes of a collective's whole buffer, all ranks' pieces: what a gather
/// gives, and a reduce-scatter takes.
double wholeBytes(const plan::ProgramT &program,
                  const plan::CollectiveT &collective);

/// The ranks that take part in a collective.
unsigned ranksOf(const plan::PlanT &plan, const plan::CollectiveT &collective);

/// Seconds that a command keeps its own stream busy; 0 for views, records and
/// waits, and for calls and pieces of copies that ranks of the first shard do
/// not run: those have the most to do. These are the compiler's prices of the
/// op that the command comes from. The plan must have been checked.
double commandSeconds(const plan::PlanT &plan, const plan::ProgramT &program,
                      const plan::CommandT &command, const Cluster &cluster);

/// The cluster that a plan was compiled for: what its pipeline names, or what
/// cluster=auto means for its device. Throws ClusterError where that was a file
/// that is gone.
Cluster clusterOf(const plan::PlanT &plan);

/// The cluster that cluster=auto means for a device.
const char *defaultCluster(plan::DeviceKind device);

} // namespace fsdp::cost

#endif // FSDP_RUNTIME_COST_COMMANDCOST_H
