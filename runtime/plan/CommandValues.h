#ifndef FSDP_PLAN_COMMANDVALUES_H
#define FSDP_PLAN_COMMANDVALUES_H

#include "plan/PlanTypes.h"

#include <vector>

namespace fsdp::plan {

/// The values that a command reads, writes or looks into; what it reads first.
std::vector<int> valuesOf(const CommandT &command);

} // namespace fsdp::plan

#endif // FSDP_PLAN_COMMANDVALUES_H
