#ifndef FSDP_RUNTIME_DRIVERS_CUDA_NCCLCOMMUNICATOR_H
#define FSDP_RUNTIME_DRIVERS_CUDA_NCCLCOMMUNICATOR_H

#include "comm/DeviceCommunicator.h"

#include <memory>

namespace fsdp {

struct NcclOptions {
  /// All channels share one communicator, and their transfers follow each
  /// other; else each has its own, and they run beside each other.
  bool single = false;
};

/// Connects the ranks of `control`, each with a GPU of its own, over NCCL.
/// Collective; blocks until all ranks have called it. `device` and `control`
/// outlive the result; memory that it gave, and graphs with its transfers, do
/// not.
///
/// Throws Error where this build has no CUDA, where NCCL is missing, older than
/// 2.18 or loaded twice, where ranks have different versions or share a GPU,
/// and what NCCL says. NCCL and CUDA are loaded here and not before.
std::unique_ptr<DeviceCommunicator>
connectNccl(Device &device, Communicator &control, const NcclOptions &options);

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_NCCLCOMMUNICATOR_H
