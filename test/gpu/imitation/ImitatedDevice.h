// The project's own CUDA code, that of libfsdp_cuda, on the imitated GPUs.
#ifndef FSDP_TEST_IMITATION_IMITATEDDEVICE_H
#define FSDP_TEST_IMITATION_IMITATEDDEVICE_H

#include "drivers/cuda/NcclCommunicator.h"
#include "drivers/cuda/CudaLibrary.h"

namespace fsdp {

extern "C" const CudaLibrary fsdp_cuda_library;

namespace imitation {

/// As openCudaDevice.
inline std::unique_ptr<Device> openDevice(int index, unsigned streams) {
  return std::unique_ptr<Device>(fsdp_cuda_library.open(index, streams));
}

/// As fsdp::connectNccl, on the imitated NCCL.
inline std::unique_ptr<DeviceCommunicator>
connectNccl(Device &device, Communicator &control, const NcclOptions &options) {
  return std::unique_ptr<DeviceCommunicator>(
      fsdp_cuda_library.connectNccl(device, control, options));
}

} // namespace imitation

} // namespace fsdp

#endif // FSDP_TEST_IMITATION_IMITATEDDEVICE_H
