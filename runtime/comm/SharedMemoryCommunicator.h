#ifndef FSDP_RUNTIME_COMM_SHAREDMEMORYCOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_SHAREDMEMORYCOMMUNICATOR_H

#include "comm/Communicator.h"
#include "comm/Patience.h"

#include <memory>

namespace c10d {
class Store;
}

namespace fsdp {

/// Ranks on one host, as processes or as threads of one, that read and write
/// each other's arenas. A transfer's work is cut into parts, and a rank that
/// waits does what is left of the others': nobody waits for a rank that has
/// started a transfer but is not finishing it yet. No system calls but where
/// ranks wait for each other for long.
///
/// `store` is a c10d store that all ranks share, its keys not used by others;
/// it is not kept. Throws Error, on all ranks alike, saying why they cannot
/// share memory. Calls throw PeerFailure when a rank fails, dies or does not
/// come while there is patience.
std::unique_ptr<Communicator>
createSharedMemoryCommunicator(c10d::Store &store, int rank, int size,
                               const Patience &patience);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SHAREDMEMORYCOMMUNICATOR_H
