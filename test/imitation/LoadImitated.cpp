// In place of runtime/device/LoadLibrary.cpp: the libraries that would be
// loaded are in the program, on imitated GPUs.
#include "ImitatedDevice.h"
#include "ImitatedKernels.h"

#include "Error.h"

#include <cstring>

namespace fsdp {

static const CudaKernelsLibrary kernels = {
    [](Device &device, const MemoryHooks &) {
      return imitation::openKernels(device).release();
    }};

const void *loadBesideProgram(const char *file, const char *symbol) {
  const struct {
    const char *symbol;
    const void *table;
  } libraries[] = {{CudaLibrary::symbol, &fsdp_cuda_library},
                   {CudaKernelsLibrary::symbol, &kernels}};
  for (auto &library : libraries)
    if (std::strcmp(symbol, library.symbol) == 0)
      return library.table;
  throw Error(std::string(file) + " is not imitated");
}

} // namespace fsdp
