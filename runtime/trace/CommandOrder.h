// Which commands of a program need which.
#ifndef FSDP_RUNTIME_TRACE_COMMANDORDER_H
#define FSDP_RUNTIME_TRACE_COMMANDORDER_H

#include "plan/PlanTypes.h"

#include <map>
#include <vector>

namespace fsdp::trace {

/// By wait: the command that stands before the record which it waits for, on
/// the record's stream; trace::nothing where none does. The plan must have been
/// checked.
std::map<uint32_t, uint32_t> awaitedCommands(const plan::ProgramT &program);

/// By command: the last ones before it that wrote what it reads.
using Needs = std::vector<std::vector<uint32_t>>;
Needs needsOf(const plan::ProgramT &program);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_COMMANDORDER_H
