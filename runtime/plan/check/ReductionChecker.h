// Checks what a reduction computes; for the checker only.
#ifndef FSDP_PLAN_CHECK_REDUCTIONCHECKER_H
#define FSDP_PLAN_CHECK_REDUCTIONCHECKER_H

#include "plan/check/SharedNumbers.h"

namespace fsdp::plan {

/// What is reduced can be, and is divided as gradients are; or, where it is
/// a norm of them, not at all.
void checkReduction(const Checked &here, const PlanT &plan,
                    const CollectiveT &collective, Norm norm);

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_REDUCTIONCHECKER_H
