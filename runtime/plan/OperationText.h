// Operators and scalars of a plan as text.
#ifndef FSDP_PLAN_OPERATIONTEXT_H
#define FSDP_PLAN_OPERATIONTEXT_H

#include "plan/PlanTypes.h"

#include <string>
#include <vector>

namespace fsdp::plan {

/// The shortest form that reads back to the same double.
std::string numberText(double value);

/// "s1 + s2", "learning rate of group 0".
std::string scalarText(const ScalarT &scalar, const PlanT &plan);

/// "%3, %4, none": values by their index, -1 for what is absent.
std::string valuesText(const std::vector<int> &values);

/// " on shards 0 to 1": the ranks that run something; empty: all do.
std::string shardsText(const ShardRange *on);

/// "aten::add.Tensor"; without an overload "aten::mm".
std::string operatorName(const std::string &name, const std::string &overload);
std::string operatorName(const AtenT &call);

/// "%5 = aten::add.Tensor(%3, %4)"; trailing defaults are left out.
std::string callText(const AtenT &call);

} // namespace fsdp::plan

#endif // FSDP_PLAN_OPERATIONTEXT_H
