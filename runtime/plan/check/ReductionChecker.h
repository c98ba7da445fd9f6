// Checks what a reduction computes; for the checker only.
#ifndef FSDP_PLAN_CHECK_REDUCTIONCHECKER_H
#define FSDP_PLAN_CHECK_REDUCTIONCHECKER_H

#include "plan/check/SharedNumbers.h"

namespace fsdp::plan {

/// Requires that the ranks can reduce the dtype, and that the sum is divided as
/// that of gradients, or, where it is a norm of gradients, not at all.
void checkReduction(const Checked &here, const PlanT &plan,
                    const CollectiveT &collective, Norm norm);

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_REDUCTIONCHECKER_H
