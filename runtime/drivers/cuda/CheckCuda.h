#ifndef FSDP_RUNTIME_DRIVERS_CUDA_CHECKCUDA_H
#define FSDP_RUNTIME_DRIVERS_CUDA_CHECKCUDA_H

#include "Error.h"

#include <cuda_runtime_api.h>
#include <string>

namespace fsdp {

/// Throws Error with CUDA's words where `what` could not be done.
inline void checkCuda(cudaError_t status, const std::string &what) {
  if (status == cudaSuccess)
    return;
  cudaGetLastError(); // which is told here, and not again
  throw Error(E::CudaCall, "cannot " + what + ": " +
                               cudaGetErrorString(status) + " (" +
                               cudaGetErrorName(status) + ")");
}

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_CHECKCUDA_H
