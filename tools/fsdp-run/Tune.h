#ifndef FSDP_TOOLS_FSDP_RUN_TUNE_H
#define FSDP_TOOLS_FSDP_RUN_TUNE_H

#include "plan/PlanTypes.h"

#include <string>

namespace fsdp {

/// Measures the plan's matrix products and attention by each kernel, on this thread, into the
/// table `path` for fsdp-opt's `kernel-table`. What the table has already stays
/// as it is. Prints a line of what was measured and what could be won.
/// Throws Error where the plan is for GPUs, or the table is of another machine
/// or cannot be written.
void tune(const plan::PlanT &plan, const std::string &path);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDP_RUN_TUNE_H
