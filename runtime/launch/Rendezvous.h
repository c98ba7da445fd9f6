#ifndef FSDP_RUNTIME_LAUNCH_RENDEZVOUS_H
#define FSDP_RUNTIME_LAUNCH_RENDEZVOUS_H

#include "comm/ConnectRanks.h"
#include "launch/Environment.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// What must be the same on all ranks: name ("plan") and value (a digest).
using Agreement = std::vector<std::pair<std::string, std::string>>;

/// Meets the other ranks and connects to them. Before the first collective,
/// `agreement` is compared; `options` are part of what must be the same. Throws
/// Error when a rank does not arrive within `timeout` (naming which), when two
/// ranks differ (showing both), when the port is in use, or when a rank is
/// there twice.
Connection meet(const Membership &me, const MeetingPoint &where,
                const std::string &runKey, const Agreement &agreement,
                const CommOptions &options, std::chrono::seconds timeout);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_RENDEZVOUS_H
