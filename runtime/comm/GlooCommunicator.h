#ifndef FSDP_RUNTIME_COMM_GLOOCOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_GLOOCOMMUNICATOR_H

#include "comm/Communicator.h"
#include "comm/Patience.h"

#include <memory>
#include <string>

namespace c10d {
class Store;
}

namespace fsdp {

/// Where a rank listens for the others.
struct GlooAddress {
  /// A network interface ("eth0"), or empty.
  std::string interface;
  /// All ranks are on this host: listen on the loopback address.
  bool loopback = false;
};

/// Ranks as processes, on one host or several, over TCP by PyTorch's Gloo.
/// Reductions are an all-to-all and a local sum: Gloo's own reduce-scatter
/// changes its order of summation with the size.
///
/// `store` is a c10d store that all ranks share and nobody else writes to. It
/// must outlive the communicator: a group of ranks meets there at its first
/// collective. Throws PeerFailure when the ranks cannot be connected within the
/// patience's limit, which holds for later calls as well, and Error where the
/// environment asks for Gloo's TLS.
std::unique_ptr<Communicator> createGlooCommunicator(c10d::Store &store,
                                                     int rank, int size,
                                                     const GlooAddress &address,
                                                     const Patience &patience);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GLOOCOMMUNICATOR_H
