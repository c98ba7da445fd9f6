// A plan as text, for people: fsdp-translate --plan-to-text.
#ifndef FSDP_PLAN_PLANTEXT_H
#define FSDP_PLAN_PLANTEXT_H

#include "plan/PlanFile.h"

#include <ostream>

namespace fsdp::plan {

/// Writes the mesh and the arenas, a line per parameter and per other state
/// (global shape, placement, each rank's own size, local shape, offset), and
/// per program its values by place and its commands in order.
void printPlan(const LoadedPlan &loaded, std::ostream &out);

} // namespace fsdp::plan

#endif // FSDP_PLAN_PLANTEXT_H
