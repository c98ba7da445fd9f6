// The borders between the programs and the libraries that link CUDA, which are
// loaded at run time. Both sides are of the same build.

#ifndef FSDP_RUNTIME_DRIVERS_CUDA_CUDALIBRARY_H
#define FSDP_RUNTIME_DRIVERS_CUDA_CUDALIBRARY_H

#include <string>

namespace fsdp {

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

  /// See openCudaKernels. The caller owns what is returned.
  Kernels *(*open)(Device &device, const MemoryHooks &hooks);
};

/// What a library beside the program exports under a symbol. Throws Error where
/// this build has no such library.
const void *loadBesideProgram(const char *file, const char *symbol);

template <typename Library> const Library &loadLibrary() {
  return *static_cast<const Library *>(
      loadBesideProgram(Library::file, Library::symbol));
}

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_CUDALIBRARY_H
