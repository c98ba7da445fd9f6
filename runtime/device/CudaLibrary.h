// The one border between the programs and the library that links CUDA.

#ifndef FSDP_RUNTIME_DEVICE_CUDALIBRARY_H
#define FSDP_RUNTIME_DEVICE_CUDALIBRARY_H

#include <string>

namespace fsdp {

class Device;

/// What the library exports, under `cudaLibrarySymbol`. Of the same build as
/// the program.
struct CudaLibrary {
  /// See countCudaDevices.
  int (*count)();
  /// See openCudaDevice. The caller owns what is returned.
  Device *(*open)(int index, unsigned streams);
  /// See describeCuda.
  std::string (*describe)();
};

constexpr const char *cudaLibraryFile = "libfsdp_cuda.so";
constexpr const char *cudaLibrarySymbol = "fsdp_cuda_library";

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_CUDALIBRARY_H
