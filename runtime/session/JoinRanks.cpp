#include "session/JoinRanks.h"

#include "Error.h"
#include "comm/LocalRanks.h"
#include "launch/Deadline.h"
#include "launch/Rendezvous.h"
#include "launch/WorldSize.h"

#include <atomic>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace fsdp {

/// A store's keys are of one meeting.
static std::string nextKey(const Variables &variables) {
  static std::atomic<unsigned> meetings{0};
  return runKey(variables) + "/session" + std::to_string(meetings.fetch_add(1));
}

static Membership findPlace(const plan::PlanT &plan, const JoinOptions &options,
                            JoinedRanks &joined) {
  Membership me = findMembership(processVariables());
  checkWorldSize(plan, me.size,
                 "start it with torchrun --nproc-per-node " +
                     std::to_string(plan::numRanks(plan)));
  joined.transports =
      resolveTransport(options.transport, plan.device, me.size == 1);
  joined.place.localRank = me.localRank;
  checkGpus(plan.device, joined.transports, /*localRanks=*/1);
  return me;
}

JoinedRanks joinRanks(const plan::LoadedPlan &loaded,
                      const JoinOptions &options,
                      const std::string &agreement) {
  JoinedRanks joined;
  Membership me = beforeJoining(
      options, [&] { return findPlace(*loaded.plan, options, joined); });
  CommOptions comm;
  comm.transport = joined.transports.hosts;
  comm.patience = patienceOf(*loaded.plan, options.patienceSeconds);
  if (me.size == 1) {
    joined.place.threads = std::make_shared<LocalRanks>(1);
    auto store = c10::make_intrusive<c10d::HashStore>();
    joined.connection =
        connectRanks(*store, 0, 1, comm, {"", /*loopback=*/true});
    return joined;
  }
  Variables variables = processVariables();
  joined.connection = meet(me, parseMeetingPoint(options.rendezvous, variables),
                           nextKey(variables),
                           {{"plan", loaded.digest},
                            {"PyTorch", FSDP_TORCH},
                            {"set of arguments", agreement}},
                           comm, std::chrono::seconds(options.meetingSeconds));
  return joined;
}

void declineToJoin(const JoinOptions &options, const std::string &why) {
  try {
    Variables variables = processVariables();
    Membership me = findMembership(variables);
    if (me.size > 1)
      declineToMeet(me, parseMeetingPoint(options.rendezvous, variables),
                    nextKey(variables), why);
  } catch (const Error &) { // nobody can say where they meet
  }
}

} // namespace fsdp
