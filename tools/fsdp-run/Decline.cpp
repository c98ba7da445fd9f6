#include "Decline.h"

#include "Error.h"
#include "launch/Rendezvous.h"

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

/// A rank of this process, as the others know it.
static Membership aRankOf(const LaunchOptions &launch) {
  Membership me = membershipOf(launch);
  if (isMember(launch, me) || launch.nodes == 1)
    return me;
  me.rank = launch.nodeRank * launch.nproc;
  me.size = launch.nodes * launch.nproc;
  return me;
}

void decline(const CommandLine &line, const std::string &why) {
  try {
    Membership me = aRankOf(line.launch);
    if (me.size < 2 || me.rank >= me.size)
      return;
    Variables variables = processVariables();
    declineToMeet(me, parseMeetingPoint(line.launch.meetingUrl(), variables),
                  runKey(variables) + (line.doctor ? "/doctor" : ""), why);
  } catch (const Error &) { // nobody can say where they meet
  }
}

} // namespace fsdp
