// What commands read and write.
#ifndef FSDP_PLAN_COMMANDVALUES_H
#define FSDP_PLAN_COMMANDVALUES_H

#include "plan/PlanTypes.h"

#include <vector>

namespace fsdp::plan {

/// The values that a command reads, writes and makes as views, each as often as
/// the command names it. Who makes a view reads what it looks into; an update
/// reads a staged parameter and writes it.
struct Accesses {
  std::vector<int> reads, writes, views;
};
Accesses accessesOf(const CommandT &command);

/// All of them, in this order.
std::vector<int> valuesOf(const CommandT &command);

} // namespace fsdp::plan

#endif // FSDP_PLAN_COMMANDVALUES_H
