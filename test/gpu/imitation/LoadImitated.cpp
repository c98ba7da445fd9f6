// In place of runtime/plan/LoadLibrary.cpp: the libraries that would be
// loaded are in the program, on imitated GPUs.
#include "ImitatedCuda.h"
#include "ImitatedDevice.h"
#include "ImitatedKernels.h"

#include "Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fsdp {

/// The GPUs that CUDA_VISIBLE_DEVICES names, as CUDA has it; one without it.
static imitation::Host hostOfProcess() {
  imitation::Host host;
  if (const char *visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    host.gpus =
        *visible ? 1 + std::count(visible, visible + std::strlen(visible), ',')
                 : 0;
  return host;
}

static const auto *atStart = new imitation::UseHost(hostOfProcess());

static const CudaKernelsLibrary kernels = {
    [](Device &device, const MemoryHooks &) {
      return imitation::openKernels(device).release();
    }};

const void *loadBesideProgram(const char *file, const char *symbol,
                              const char *) {
  const struct {
    const char *symbol;
    const void *table;
  } libraries[] = {{CudaLibrary::symbol, &fsdp_cuda_library},
                   {CudaKernelsLibrary::symbol, &kernels}};
  for (auto &library : libraries)
    if (std::strcmp(symbol, library.symbol) == 0)
      return library.table;
  throw Error(E::Unexpected, std::string(file) + " is not imitated");
}

} // namespace fsdp
