#ifndef FSDP_RUNTIME_LAUNCH_RENDEZVOUS_H
#define FSDP_RUNTIME_LAUNCH_RENDEZVOUS_H

#include "comm/ConnectRanks.h"
#include "launch/Environment.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// Of packets that are smaller on the way than the interface says.
extern const char *const largePacketsAdvice;

/// What must be the same on all ranks: name ("plan") and value (a digest). Of
/// what differs, the first is shown.
using Agreement = std::vector<std::pair<std::string, std::string>>;

/// Ranks that find each other at one place, and can leave texts for each other
/// there before they are connected. All members are collective, and throw
/// Error.
class Meeting {
public:
  /// Waits up to `timeout` for the place, and so long for the ranks.
  Meeting(const Membership &me, const MeetingPoint &where,
          const std::string &runKey, std::chrono::seconds timeout);

  /// Compares what must be the same. Comes first.
  void agree(const Agreement &agreement);
  /// Every rank's text, by rank; `what` names it, another one each time.
  std::vector<std::string> exchange(const std::string &what,
                                    const std::string &mine,
                                    std::chrono::seconds timeout);
  /// Connects the ranks; once for each transport.
  Connection connect(const CommOptions &options);
  /// Nobody reads here any longer: rank 0, who may serve the place, waits until
  /// all say so.
  void close(std::chrono::seconds timeout);
  /// Ends the meeting of the others, who say `why`; in place of agree(). So do
  /// `ranks` ranks, of which this is the first.
  void decline(const std::string &why, int ranks);

private:
  class Place;
  std::shared_ptr<Place> place;
};

/// Meets the other ranks and connects to them. Before the first collective,
/// `agreement` is compared; `options` are part of what must be the same. Throws
/// Error when a rank does not arrive within `timeout` (naming which), when two
/// ranks differ (showing both), when the port is in use, or when a rank is
/// there twice.
Connection meet(const Membership &me, const MeetingPoint &where,
                const std::string &runKey, const Agreement &agreement,
                const CommOptions &options, std::chrono::seconds timeout);

/// A rank that serves the place and ends stays as long for the others to read
/// why.
inline constexpr std::chrono::seconds toBeHeard(3);

/// For a rank that fails before it meets the others: tells them, where the
/// place is there within `patience` or, if it is this rank's to serve, for so
/// long. It is the first of `ranks` that do not come.
void declineToMeet(const Membership &me, const MeetingPoint &where,
                   const std::string &runKey, const std::string &why,
                   int ranks = 1, std::chrono::seconds patience = toBeHeard);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_RENDEZVOUS_H
