#ifndef FSDP_RUNTIME_EXECUTOR_CONSTANTARGUMENT_H
#define FSDP_RUNTIME_EXECUTOR_CONSTANTARGUMENT_H

#include "plan/PlanTypes.h"

#include <ATen/core/function_schema.h>
#include <optional>

namespace fsdp {

/// A constant of the plan as `argument` wants it (a Scalar stays the integer or
/// the float it was; one integer fills an int[N]). Nothing when it does not
/// fit.
std::optional<c10::IValue> constantArgument(const plan::ArgumentT &given,
                                            const c10::Argument &argument);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_CONSTANTARGUMENT_H
