// Checks the operators that a plan calls against PyTorch's schemas of them.
#ifndef FSDP_PLAN_CHECK_OPERATORCHECKER_H
#define FSDP_PLAN_CHECK_OPERATORCHECKER_H

#include "plan/OperatorSchema.h"
#include "plan/PlanTypes.h"

#include <functional>
#include <optional>

namespace fsdp::plan {

/// The schema of "aten::add" and "Tensor"; nothing where there is none.
using FindSchema = std::function<std::optional<OperatorSchema>(
    const std::string &name, const std::string &overload)>;

/// What checkPlan() cannot know without PyTorch: that each call of a program
/// or a rule is of an operator whose results are its only effects (C30), with
/// arguments of its schema's types and inside the ranges of those (C31), and
/// that views are those that the schema says (C3). Throws a Finding; the plan
/// has passed checkPlan(). Asks `find` about each operator once.
void checkOperators(const PlanT &plan, const FindSchema &find);

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_OPERATORCHECKER_H
