// When a program's values are in use, and the least memory that it can do with.
#ifndef FSDP_PLAN_CHECK_LIVERANGES_H
#define FSDP_PLAN_CHECK_LIVERANGES_H

#include "plan/PlanTypes.h"

#include <vector>

namespace fsdp::plan {

class CheckingBudget;

/// The first and the last command at which a value is in use: -1 for inputs,
/// the number of commands for outputs. Nobody uses a value whose last is before
/// its first.
struct LiveRange {
  int first, last;
};

/// The value in whose bytes `value` lies: itself, or what it is a view or a
/// part of in the end.
int rootOf(const ProgramT &program, int value);

/// The range of each value that is its own root, in the order of the list, its
/// views and parts included, but for views made before it is first written;
/// others have none. What a collective or a copy
/// beside the compute stream uses is in use until the compute stream has waited
/// for it; to the end where it never does. The program's indices must have been
/// checked.
std::vector<LiveRange> liveRanges(const ProgramT &program);

/// The largest sum of bytes in use at one time in an arena of the rank, states
/// included, each value rounded up to the alignment. Of a plan that is being
/// checked it takes from `budget`.
uint64_t liveBytes(const PlanT &plan, const ProgramT &program,
                   uint32_t arena = deviceArena,
                   CheckingBudget *budget = nullptr);

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_LIVERANGES_H
