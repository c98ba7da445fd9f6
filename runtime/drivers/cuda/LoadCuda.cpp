#include "Error.h"
#include "drivers/cuda/NcclCommunicator.h"
#include "drivers/cuda/CudaLibrary.h"
#include "device/Device.h"

namespace fsdp {

int countCudaDevices() { return loadLibrary<CudaLibrary>().count(); }

std::unique_ptr<Device> openCudaDevice(int index, unsigned streams) {
  return std::unique_ptr<Device>(
      loadLibrary<CudaLibrary>().open(index, streams));
}

std::unique_ptr<DeviceCommunicator>
connectNccl(Device &device, Communicator &control, const NcclOptions &options) {
  return std::unique_ptr<DeviceCommunicator>(
      loadLibrary<CudaLibrary>().connectNccl(device, control, options));
}

std::string describeCuda() {
  try {
    return loadLibrary<CudaLibrary>().describe();
  } catch (const Error &) {
    return "no CUDA";
  }
}

} // namespace fsdp
