// What people, files and Python call the cases of the plan's enumerations: the
// schema's names in lower case, which are the IR's.
#ifndef FSDP_PLAN_NAMES_H
#define FSDP_PLAN_NAMES_H

#include "plan/PlanTypes.h"

#include <optional>
#include <string>

namespace fsdp::plan {

/// "parameter"
std::string nameOf(Role role);
/// "shard"
std::string nameOf(AxisRole role);
/// "cuda"
std::string nameOf(DeviceKind device);
/// "forward"; empty without one
std::string nameOf(std::optional<ProgramRegion> region);

} // namespace fsdp::plan

#endif // FSDP_PLAN_NAMES_H
