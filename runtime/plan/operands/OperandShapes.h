// Shapes that an operator's kernel takes for granted.
#ifndef FSDP_PLAN_OPERANDS_OPERANDSHAPES_H
#define FSDP_PLAN_OPERANDS_OPERANDSHAPES_H

#include "plan/OperatorSchema.h"
#include "plan/PlanTypes.h"

namespace fsdp::plan {

/// Whether the operator's kernels on CPUs compare its operands' shapes less
/// than they need to: given others they read or write memory that is nobody's.
bool trustsShapes(const std::string &name);

/// What does not fit among a call's operands; empty where all does. The call
/// has been held against its schema, and is of a program.
std::string misfitOf(const ProgramT &program, const AtenT &call,
                     const OperatorSchema &schema);

} // namespace fsdp::plan

#endif // FSDP_PLAN_OPERANDS_OPERANDSHAPES_H
