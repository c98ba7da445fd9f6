// What people, files and Python call the cases of the plan's enumerations: the
// schema's names in lower case, which are the IR's.
#ifndef FSDP_PLAN_NAMES_H
#define FSDP_PLAN_NAMES_H

#include "plan/PlanTypes.h"

#include <string>

namespace fsdp::plan {

/// "parameter"
std::string nameOf(Role role);
/// "shard"
std::string nameOf(AxisRole role);
/// "cuda"
std::string nameOf(DeviceKind device);

} // namespace fsdp::plan

#endif // FSDP_PLAN_NAMES_H
