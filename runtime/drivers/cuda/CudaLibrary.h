// The libraries that link CUDA.

#ifndef FSDP_RUNTIME_DRIVERS_CUDA_CUDALIBRARY_H
#define FSDP_RUNTIME_DRIVERS_CUDA_CUDALIBRARY_H

#include "plan/LoadLibrary.h"

#include <string>

namespace fsdp {

/// What a user is told where a library below is not there.
inline constexpr const char *kNoCuda =
    "the plan is for GPUs, and this build has no CUDA; build with "
    "-DFSDP_BUILD_CUDA=ON, or compile the plan for device=cpu";

class Communicator;
class Device;
class DeviceCommunicator;
class Kernels;
struct MemoryHooks;
struct NcclOptions;

/// What libfsdp_cuda exports: CUDA's runtime.
struct CudaLibrary {
  static constexpr const char *file = "libfsdp_cuda.so";
  static constexpr const char *symbol = "fsdp_cuda_library";
  static constexpr const char *otherwise = kNoCuda;

  /// See countCudaDevices.
  int (*count)();
  /// See openCudaDevice. The caller owns what is returned.
  Device *(*open)(int index, unsigned streams);
  /// See describeCuda.
  std::string (*describe)();
  /// See connectNccl. The caller owns what is returned.
  DeviceCommunicator *(*connectNccl)(Device &device, Communicator &control,
                                     const NcclOptions &options);
};

/// Of the library: "13.0" of 13000.
std::string cudaVersionText(int version);

/// Of the library: what its table calls connectNccl.
DeviceCommunicator *openNccl(Device &device, Communicator &control,
                             const NcclOptions &options);

/// What libfsdp_cuda_kernels exports: PyTorch's kernels.
struct CudaKernelsLibrary {
  static constexpr const char *file = "libfsdp_cuda_kernels.so";
  static constexpr const char *symbol = "fsdp_cuda_kernels_library";
  static constexpr const char *otherwise = kNoCuda;

  /// See openCudaKernels. The caller owns what is returned.
  Kernels *(*open)(Device &device, const MemoryHooks &hooks);
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_CUDALIBRARY_H
