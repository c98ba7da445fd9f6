#ifndef FSDP_RUNTIME_LAUNCH_MEETINGSTORE_H
#define FSDP_RUNTIME_LAUNCH_MEETINGSTORE_H

#include "launch/Environment.h"

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace fsdp {

/// What people call the place.
std::string nameOf(const MeetingPoint &where);

/// Whether the place is gone with this rank.
bool serves(const Membership &me, const MeetingPoint &where);

/// What to look at where nobody comes to an address that each host has, or that
/// this one does not know; else empty.
std::string adviceOnHost(const MeetingPoint &where);

/// Opens the store at which ranks meet, and waits up to `timeout` for whoever
/// serves it. Throws Error.
c10::intrusive_ptr<c10d::Store> openMeetingStore(const Membership &me,
                                                 const MeetingPoint &where,
                                                 std::chrono::seconds timeout);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_MEETINGSTORE_H
