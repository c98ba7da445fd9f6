// The least memory that a program can do with.
#ifndef FSDP_PLAN_LIVEBYTES_H
#define FSDP_PLAN_LIVEBYTES_H

#include "plan/PlanTypes.h"

namespace fsdp::plan {

/// The largest sum of bytes in use at one time in an arena of the rank, states
/// included, each value rounded up to the alignment. Commands count as one
/// after the other, in the list's order; a collective uses its values until
/// a wait for it. The rest of the program must have been checked.
uint64_t liveBytes(const PlanT &plan, const ProgramT &program,
                   uint32_t arena = deviceArena);

} // namespace fsdp::plan

#endif // FSDP_PLAN_LIVEBYTES_H
