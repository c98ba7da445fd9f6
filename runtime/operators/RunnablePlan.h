#ifndef FSDP_RUNTIME_OPERATORS_RUNNABLEPLAN_H
#define FSDP_RUNTIME_OPERATORS_RUNNABLEPLAN_H

#include "plan/PlanFile.h"

namespace fsdp {

/// Throws PlanError where the step was captured with another PyTorch than that
/// of this process: operators of one schema may compute other numbers there. A
/// plan of IR that was never captured names none.
void requireOwnTorch(const plan::PlanT &plan);

/// A plan that is read, checked, and calls this process's operators. Throws
/// PlanError.
plan::LoadedPlan readRunnablePlan(const std::string &path);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_RUNNABLEPLAN_H
