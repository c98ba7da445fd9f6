// Kernels of this project's own for GPUs.

#ifndef FSDP_RUNTIME_DRIVERS_CUDA_COMPILEDKERNELS_H
#define FSDP_RUNTIME_DRIVERS_CUDA_COMPILEDKERNELS_H

#include <cuda_runtime_api.h>
#include <map>
#include <mutex>
#include <string>

namespace fsdp {

/// What NVRTC makes of CUDA C++ for GPUs of this compute capability: 90 is 9.0.
/// It needs no GPU. `name` stands in messages. Throws Error with the compiler's
/// message.
std::string compileForGpu(const std::string &name, const std::string &source,
                          int capability);

/// Kernels from their source, compiled for the GPU at hand by the first launch
/// on one of its kind. Neither a build nor a machine with GPUs needs CUDA's
/// compiler. Any number of threads may launch.
class CompiledKernels {
public:
  CompiledKernels(std::string name, std::string source)
      : name(std::move(name)), source(std::move(source)) {}

  /// Launches an `extern "C"` kernel on the calling thread's GPU. `arguments`
  /// are the addresses of the kernel's. Throws Error where it cannot be
  /// compiled or launched.
  void launch(const char *kernel, dim3 blocks, dim3 threads, void **arguments,
              cudaStream_t stream);

private:
  cudaLibrary_t load(int capability);

  std::string name, source;
  std::mutex mutex;
  std::map<int, cudaLibrary_t> libraries; // by compute capability
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_COMPILEDKERNELS_H
