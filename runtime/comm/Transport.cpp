#include "comm/Transport.h"

namespace fsdp {

Transports resolveTransport(Transport asked, plan::DeviceKind device,
                            bool threads) {
  Transports result;
  if (asked == Transport::SharedMemory)
    result.hosts = HostTransport::SharedMemory;
  if (asked == Transport::Gloo)
    result.hosts = HostTransport::Gloo;
  // Ranks that are threads need no NCCL to reach each other.
  if (device == plan::DeviceKind::Cuda)
    result.devices = threads && asked == Transport::Auto
                         ? DeviceTransport::Copies
                         : DeviceTransport::Nccl;
  return result;
}

} // namespace fsdp
