// Checks the copies of a program.
#ifndef FSDP_PLAN_CHECK_COPYCHECKER_H
#define FSDP_PLAN_CHECK_COPYCHECKER_H

#include "plan/check/ProgramMemory.h"

namespace fsdp::plan {

/// Checks that a copy on `stream` is of that stream's direction and stays
/// inside the places of its values, and notes what it does to the program's
/// memory.
void checkCopy(const Checked &here, const PlanT &plan, const ProgramT &program,
               const CopyT &copy, uint32_t stream, ProgramMemory &memory);

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_COPYCHECKER_H
