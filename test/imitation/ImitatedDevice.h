// The project's own CUDA code, CudaDevice.cpp, on the imitated GPUs.
#ifndef FSDP_TEST_IMITATION_IMITATEDDEVICE_H
#define FSDP_TEST_IMITATION_IMITATEDDEVICE_H

#include "device/CudaLibrary.h"
#include "device/Device.h"

namespace fsdp {

extern "C" const CudaLibrary fsdp_cuda_library;

namespace imitation {

/// As openCudaDevice.
inline std::unique_ptr<Device> openDevice(int index, unsigned streams) {
  return std::unique_ptr<Device>(fsdp_cuda_library.open(index, streams));
}

} // namespace imitation

} // namespace fsdp

#endif // FSDP_TEST_IMITATION_IMITATEDDEVICE_H
