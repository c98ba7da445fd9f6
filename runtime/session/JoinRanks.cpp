#include "session/JoinRanks.h"

#include "Error.h"
#include "comm/LocalRanks.h"
#include "launch/Deadline.h"
#include "launch/Rendezvous.h"
#include "launch/WorldSize.h"

#include <atomic>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace fsdp {

JoinedRanks joinRanks(const plan::LoadedPlan &loaded,
                      const JoinOptions &options,
                      const std::string &agreement) {
  // A store's keys are of one meeting.
  static std::atomic<unsigned> meetings{0};
  Variables variables = processVariables();
  Membership me = findMembership(variables);
  std::string ranks = std::to_string(plan::numRanks(*loaded.plan));
  checkWorldSize(*loaded.plan, me.size,
                 "start it with torchrun --nproc-per-node " + ranks);
  bool alone = me.size == 1;
  JoinedRanks joined;
  joined.transports =
      resolveTransport(options.transport, loaded.plan->device, alone);
  joined.place.localRank = me.localRank;
  checkGpus(*loaded.plan, joined.transports, /*localRanks=*/1);
  CommOptions comm;
  comm.transport = joined.transports.hosts;
  comm.patience = patienceOf(*loaded.plan, options.patienceSeconds);
  if (alone) {
    joined.place.threads = std::make_shared<LocalRanks>(1);
    auto store = c10::make_intrusive<c10d::HashStore>();
    joined.connection =
        connectRanks(*store, 0, 1, comm, {"", /*loopback=*/true});
    return joined;
  }
  std::string key =
      runKey(variables) + "/session" + std::to_string(meetings.fetch_add(1));
  joined.connection =
      meet(me, parseMeetingPoint(options.rendezvous, variables), key,
           {{"plan", loaded.digest},
            {"PyTorch", FSDP_TORCH},
            {"set of arguments", agreement}},
           comm, std::chrono::seconds(options.meetingSeconds));
  return joined;
}

} // namespace fsdp
