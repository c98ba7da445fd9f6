// Checks a plan once, when it is loaded, trusting nothing in it, so that the
// executor can be a plain loop that checks nothing.
#ifndef FSDP_PLAN_PLANCHECKER_H
#define FSDP_PLAN_PLANCHECKER_H

#include "plan/PlanTypes.h"

namespace fsdp::plan {

/// Throws PlanError with the first thing wrong: an index or a place out of
/// range, shapes that do not fit their places, a command whose operands do not
/// agree, a value that is read before it is written or after its bytes were
/// given to another one.
///
/// A plan that passes has no null pointer in it: every union is set, every
/// place is there.
void checkPlan(const PlanT &plan);

} // namespace fsdp::plan

#endif // FSDP_PLAN_PLANCHECKER_H
