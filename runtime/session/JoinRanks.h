#ifndef FSDP_RUNTIME_SESSION_JOINRANKS_H
#define FSDP_RUNTIME_SESSION_JOINRANKS_H

#include "comm/ConnectRanks.h"
#include "launch/Environment.h"
#include "launch/ErrorReport.h"
#include "plan/PlanFile.h"
#include "session/OpenBackend.h"

#include <string>

namespace fsdp {

/// How a rank that somebody else started finds the others.
struct JoinOptions {
  Transport transport = Transport::Auto;
  std::string rendezvous = "env://";
  int meetingSeconds = 300;
  double patienceSeconds = 0; // 0: deadlineOf the plan
};

/// This rank among the others.
struct JoinedRanks {
  Connection connection;
  Transports transports;
  LocalPlace place;
};

/// Connects this process with the other ranks of its run, as its environment
/// says who they are; without a word there it is alone. `agreement`: what all
/// must have alike besides the plan. Processes may join again and again, all of
/// them as often. Throws Error where the plan is for another number of ranks,
/// and as meet() does.
JoinedRanks joinRanks(const plan::LoadedPlan &loaded,
                      const JoinOptions &options, const std::string &agreement);

/// For a rank that fails before it joins: tells those that wait for it why.
void declineToJoin(const JoinOptions &options, const std::string &why);

/// Calls what a rank does before it joins.
template <typename Call>
auto beforeJoining(const JoinOptions &options, Call call) {
  try {
    return call();
  } catch (...) {
    declineToJoin(options, describeCurrentError().message);
    throw;
  }
}

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_JOINRANKS_H
