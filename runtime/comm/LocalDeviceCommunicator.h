#ifndef FSDP_RUNTIME_COMM_LOCALDEVICECOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_LOCALDEVICECOMMUNICATOR_H

#include "comm/DeviceCommunicator.h"

namespace fsdp {

class Kernels;
class LocalRanks;

/// Ranks that are threads of one process, on one GPU or several. Each copies
/// and adds on its own stream what it needs of the others' memory, behind their
/// events, and their streams go on behind its. So launching waits until all
/// ranks of the group have launched, for the host's sake alone. The numbers are
/// Communicator's, to the bit.
///
/// Collective: waits until all ranks have called it. Device and kernels outlive
/// the communicator; their thread calls it. A rank that fails calls abort();
/// one that ends without it fails only those that wait for it. `watch`: of the
/// rank's hosts, who asks for those that do not come; null: nobody.
std::unique_ptr<DeviceCommunicator>
createLocalDeviceCommunicator(std::shared_ptr<LocalRanks> ranks, int rank,
                              Device &device, Kernels &kernels,
                              RankWatch *watch = nullptr);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_LOCALDEVICECOMMUNICATOR_H
