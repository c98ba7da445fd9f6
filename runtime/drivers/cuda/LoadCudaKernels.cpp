#include "drivers/cuda/CudaLibrary.h"
#include "device/Kernels.h"

namespace fsdp {

std::unique_ptr<Kernels> openCudaKernels(Device &device,
                                         const MemoryHooks &hooks) {
  return std::unique_ptr<Kernels>(
      loadLibrary<CudaKernelsLibrary>().open(device, hooks));
}

} // namespace fsdp
