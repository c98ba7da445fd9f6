// How ranks reach each other: what --comm asks for, and what it comes to.
#ifndef FSDP_RUNTIME_COMM_TRANSPORT_H
#define FSDP_RUNTIME_COMM_TRANSPORT_H

#include "plan/PlanTypes.h"

#include <optional>

namespace fsdp {

/// What a user may ask for.
enum class Transport {
  Auto,
  SharedMemory,
  Gloo,
  Nccl,
};

struct TransportInfo {
  Transport transport;
  const char *name; // as --comm has it
  /// Whose ranks it is for; nothing: any plan's.
  std::optional<plan::DeviceKind> device;
};

constexpr TransportInfo transports[] = {
    {Transport::Auto, "auto", std::nullopt},
    {Transport::SharedMemory, "shm", plan::DeviceKind::Cpu},
    {Transport::Gloo, "gloo", plan::DeviceKind::Cpu},
    {Transport::Nccl, "nccl", plan::DeviceKind::Cuda},
};

/// What hosts talk over: collectives of CPUs, and what GPUs' ranks say to each
/// other beside theirs.
enum class HostTransport {
  Auto, // shared memory where all ranks can, else Gloo
  SharedMemory,
  Gloo,
};

/// What carries the collectives of GPUs.
enum class DeviceTransport {
  None,   // there are no GPUs
  Copies, // between the GPUs of one process's threads, or the one GPU
  Nccl,
};

struct Transports {
  HostTransport hosts = HostTransport::Auto;
  DeviceTransport devices = DeviceTransport::None;
};

/// `threads`: all ranks are threads of this process, or there is one. What is
/// asked for is for the plan's device.
Transports resolveTransport(Transport asked, plan::DeviceKind device,
                            bool threads);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_TRANSPORT_H
