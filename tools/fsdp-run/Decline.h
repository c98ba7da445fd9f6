#ifndef FSDP_TOOLS_FSDPRUN_DECLINE_H
#define FSDP_TOOLS_FSDPRUN_DECLINE_H

#include "CommandLine.h"
#include "launch/Environment.h"

#include <string>

namespace fsdp {

/// Of --nproc and a batch system's surroundings, who this process is; alone
/// where it starts the ranks itself. Throws Error.
Membership membershipOf(const LaunchOptions &launch);

/// Whether this process is one of the ranks that somebody started.
bool isMember(const LaunchOptions &launch, const Membership &me);

/// For a process that fails before its ranks meet others: tells those why they
/// do not come, where there are any.
void decline(const CommandLine &line, const std::string &why);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_DECLINE_H
