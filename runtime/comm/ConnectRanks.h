#ifndef FSDP_RUNTIME_COMM_CONNECTRANKS_H
#define FSDP_RUNTIME_COMM_CONNECTRANKS_H

#include "comm/Communicator.h"
#include "comm/GlooCommunicator.h"
#include "comm/Patience.h"
#include "comm/ThrottledCommunicator.h"
#include "comm/Transport.h"

#include <memory>
#include <optional>
#include <string>

namespace c10d {
class Store;
}

namespace fsdp {

/// How hosts talk to each other.
struct CommOptions {
  HostTransport transport = HostTransport::Auto;
  std::optional<cost::Link> throttle;
  Patience patience = std::chrono::minutes(10);
};

struct Connection {
  /// What must stay open as long as ranks talk: rank 0 may serve it.
  std::shared_ptr<void> meetingPoint;
  std::unique_ptr<Communicator> communicator;
  /// Why it is this transport, for people.
  std::string reason;
};

/// Connects ranks that share `store`, whose keys nobody else uses, and that say
/// the same `options`. Throws Error when they cannot share memory but must, and
/// PeerFailure when they cannot be connected.
Connection connectRanks(c10d::Store &store, int rank, int size,
                        const CommOptions &options, const GlooAddress &address);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_CONNECTRANKS_H
