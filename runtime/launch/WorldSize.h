#ifndef FSDP_RUNTIME_LAUNCH_WORLDSIZE_H
#define FSDP_RUNTIME_LAUNCH_WORLDSIZE_H

#include "plan/PlanTypes.h"

#include <string>

namespace fsdp {

/// Throws Error where the plan is for another number of ranks than `size`.
/// `howToStart` says how to have as many: "run it with --nproc 2".
void checkWorldSize(const plan::PlanT &plan, int size,
                    const std::string &howToStart);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_WORLDSIZE_H
