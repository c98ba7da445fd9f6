// What commands read and write.
#ifndef FSDP_PLAN_COMMANDVALUES_H
#define FSDP_PLAN_COMMANDVALUES_H

#include "plan/PlanTypes.h"

#include <vector>

namespace fsdp::plan {

/// The values among a call's arguments, in their order, each as often as the
/// call names it.
std::vector<int> operandsOf(const AtenT &call);

/// The values that a command reads, writes and makes as views, each as often as
/// the command names it. A command that makes a view reads the value that the
/// view shows; an update both reads and writes a staged parameter.
struct Accesses {
  std::vector<int> reads, writes, views;
};
Accesses accessesOf(const CommandT &command);

/// All of them, in this order.
std::vector<int> valuesOf(const CommandT &command);

} // namespace fsdp::plan

#endif // FSDP_PLAN_COMMANDVALUES_H
