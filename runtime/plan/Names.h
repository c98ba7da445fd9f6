// Names of the plan's enumerators for messages, files and Python: those of the
// schema in lower case, as the IR has them.
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
