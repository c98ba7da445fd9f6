#ifndef FSDP_TOOLS_FSDPRUN_RUNDOCTOR_H
#define FSDP_TOOLS_FSDPRUN_RUNDOCTOR_H

#include "CommandLine.h"
#include "launch/Environment.h"

namespace fsdp {

/// This rank's part of `--doctor`; rank 0 prints what all found. Throws Error
/// where the ranks do not meet, and on rank 0 where a run would fail. End the
/// process with _Exit: see doctor::examine().
void runDoctor(const CommandLine &line, const Membership &me);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_RUNDOCTOR_H
