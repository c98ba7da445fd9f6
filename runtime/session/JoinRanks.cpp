#include "session/JoinRanks.h"

#include "Error.h"
#include "launch/Deadline.h"
#include "launch/Rendezvous.h"
#include "launch/WorldSize.h"

#include <atomic>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace fsdp {

static CommOptions commOptions(const plan::PlanT &plan,
                               const JoinOptions &options, bool alone) {
  CommOptions result;
  result.transport =
      resolveTransport(options.transport, plan.device, alone).hosts;
  result.patience = patienceOf(plan, options.patienceSeconds);
  return result;
}

Connection joinRanks(const plan::LoadedPlan &loaded, const JoinOptions &options,
                     const std::string &agreement) {
  // A store's keys are of one meeting.
  static std::atomic<unsigned> meetings{0};
  Variables variables = processVariables();
  Membership me = findMembership(variables);
  std::string ranks = std::to_string(plan::numRanks(*loaded.plan));
  checkWorldSize(*loaded.plan, me.size,
                 "start it with torchrun --nproc-per-node " + ranks);
  bool alone = me.size == 1;
  CommOptions comm = commOptions(*loaded.plan, options, alone);
  if (alone) {
    auto store = c10::make_intrusive<c10d::HashStore>();
    return connectRanks(*store, 0, 1, comm, {"", /*loopback=*/true});
  }
  std::string key =
      runKey(variables) + "/session" + std::to_string(meetings.fetch_add(1));
  return meet(me, parseMeetingPoint(options.rendezvous, variables), key,
              {{"plan", loaded.digest},
               {"PyTorch", FSDP_TORCH},
               {"set of arguments", agreement}},
              comm, std::chrono::seconds(options.meetingSeconds));
}

} // namespace fsdp
