#include "Decline.h"

#include "Error.h"
#include "comm/GlooProcess.h"
#include "launch/Rendezvous.h"

#include <c10/util/Logging.h>
#include <csignal>
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

void prepareProcess() {
  // Whoever read our words may be gone: that is no reason to end.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN); // beyond `ulimit -f`
  // c10d's notes on connections that are tried again are no news to a user;
  // what fails is reported once, by us.
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  setGlooVariables(); // here, since there is one thread
  c10::initLogging();
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
