#ifndef FSDP_RUNTIME_EXECUTOR_VALUEUSES_H
#define FSDP_RUNTIME_EXECUTOR_VALUEUSES_H

#include "plan/PlanTypes.h"

#include <string>
#include <vector>

namespace fsdp {

/// "aten::mm", "all-gather", ..., for messages.
std::string nameOf(const plan::CommandT &command);

/// Where in a program's commands each value is first and last touched, itself
/// or through a view; -1 and `commands` for inputs and outputs. Values that are
/// views have the interval of the value they look into, and of states none.
struct LiveRange {
  int first, last;
};
std::vector<LiveRange> liveRanges(const plan::ProgramT &program);

/// The value in whose storage `value` lies.
int rootOf(const plan::ProgramT &program, int value);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_VALUEUSES_H
