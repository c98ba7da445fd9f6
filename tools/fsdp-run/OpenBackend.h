#ifndef FSDP_TOOLS_FSDPRUN_OPENBACKEND_H
#define FSDP_TOOLS_FSDPRUN_OPENBACKEND_H

#include "CommandLine.h"
#include "executor/Backend.h"
#include "plan/PlanTypes.h"

#include <memory>

namespace fsdp {

class LocalRanks;

/// Throws Error where this machine, or what the user says of ranks and
/// transports, does not fit the plan's device. Costs little: asked before
/// anything is read. `localRanks`: of this host.
void checkDevice(const plan::PlanT &plan, const CommandLine &line,
                 const Transports &transports, int localRanks);

/// Where a rank is on its host.
struct LocalPlace {
  int localRank = 0;
  /// Ranks that are threads of this process share this; null: a process each.
  std::shared_ptr<LocalRanks> threads;
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
                          const LaunchOptions &launch,
                          const Transports &transports,
                          const LocalPlace &place);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_OPENBACKEND_H
