#include "Decline.h"

#include "Error.h"
#include "launch/Rendezvous.h"

#include <cstdio>
#include <cstdlib>

namespace fsdp {

Membership membershipOf(const LaunchOptions &launch) {
  // An explicit --nproc wins over a batch system's surroundings.
  if (!launch.nproc || !launch.supervisor.empty() || std::getenv("RANK"))
    return findMembership(processVariables());
  return {};
}

bool isMember(const LaunchOptions &launch, const Membership &me) {
  return !launch.supervisor.empty() ||
         (!launch.nproc && !launch.threads && !me.source.empty());
}

/// The ranks of this process, as the others know them.
struct Absent {
  Membership first;
  int count = 1;
  /// A host's that nobody but its user has started: where a launcher has, it
  /// ends the others, and looks for the end of this one.
  bool isHost = false;
};

static Absent absentOf(const LaunchOptions &launch) {
  Absent result = {membershipOf(launch)};
  if (isMember(launch, result.first) || launch.nodes == 1)
    return result;
  result.first.rank = launch.nodeRank * launch.nproc;
  result.first.size = launch.nodes * launch.nproc;
  result.count = launch.nproc;
  result.isHost = true;
  return result;
}

void decline(const CommandLine &line, const std::string &why) {
  const LaunchOptions &launch = line.launch;
  if (line.checksFlags) // who started it says the error, and tells them
    return;
  try {
    auto [me, count, isHost] = absentOf(launch);
    if (me.size < 2 || me.rank >= me.size)
      return;
    Variables variables = processVariables();
    MeetingPoint where = parseMeetingPoint(launch.meetingUrl(), variables);
    std::chrono::seconds patience = toBeHeard;
    if (isHost && !launch.isAwaited) {
      patience = std::chrono::seconds(launch.meetingSeconds);
      std::fprintf(stderr,
                   "note: the other hosts are told as they come, for %d s at "
                   "most; Ctrl-C leaves them waiting\n",
                   launch.meetingSeconds);
    }
    declineToMeet(me, where, runKey(variables) + (line.doctor ? "/doctor" : ""),
                  why, count, patience);
  } catch (const Error &) { // nobody can say where they meet
  }
}

} // namespace fsdp
