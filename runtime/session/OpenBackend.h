#ifndef FSDP_RUNTIME_SESSION_OPENBACKEND_H
#define FSDP_RUNTIME_SESSION_OPENBACKEND_H

#include "comm/Transport.h"
#include "executor/Backend.h"
#include "executor/HostStreams.h"
#include "plan/PlanTypes.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp {

class Communicator;
class LocalRanks;

/// A flag or an argument, as people write it, that means something for one kind
/// of device alone.
struct DeviceFlag {
  std::string name;
  bool given;
  plan::DeviceKind device;
};

/// A transport that was asked for by that flag.
DeviceFlag transportFlag(const std::string &name, Transport asked);

/// Throws Error where one is given that is for another kind of device than the
/// plan's: it must not be passed over in silence.
void checkFlags(plan::DeviceKind device, const std::vector<DeviceFlag> &flags);

/// Throws Error where the plan's device is GPUs, of which this host has too few
/// for so many ranks of it. Costs little: asked before anything is read.
void checkGpus(plan::DeviceKind device, const Transports &transports,
               int localRanks);

/// Where a rank is on its host.
struct LocalPlace {
  int localRank = 0;
  /// Ranks that are threads of this process share this; null: a process each.
  std::shared_ptr<LocalRanks> threads;
};

struct BackendOptions {
  HostStreamKind hostStreams = HostStreamKind::Inline;
  /// NCCL's gathers and reductions share one communicator.
  bool singleCommunicator = false;
};

/// A rank's backend, and what to tell people about it.
struct OpenedBackend {
  std::unique_ptr<Backend> backend;
  std::string transport; // of the plan's collectives
  std::string reason;    // for it; empty: none
};

/// Opens what the plan runs on. Collective. The communicator outlives it.
/// Throws Error.
OpenedBackend openBackend(const plan::PlanT &plan, Communicator &communicator,
                          const BackendOptions &options,
                          const Transports &transports,
                          const LocalPlace &place);

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_OPENBACKEND_H
