#ifndef FSDP_RUNTIME_LAUNCH_DEADLINE_H
#define FSDP_RUNTIME_LAUNCH_DEADLINE_H

#include "comm/Patience.h"
#include "plan/PlanTypes.h"

#include <chrono>

namespace fsdp {

/// How long a rank may keep the others waiting in a collective where nobody
/// says: as long as a hundred of the plan's steps are expected to take, and
/// never less than ten minutes, PyTorch's own limit for NCCL. In between lie
/// loading, saving and evaluation, of which no plan knows. The plan must have
/// been checked.
std::chrono::milliseconds deadlineOf(const plan::PlanT &plan);

/// The patience of a process of this plan: so many seconds, 0: deadlineOf.
/// Notes go to standard error.
Patience patienceOf(const plan::PlanT &plan, double seconds);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_DEADLINE_H
