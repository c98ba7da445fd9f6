#include "Error.h"
#include "device/CudaLibrary.h"
#include "device/Device.h"

#include <dlfcn.h>
#include <filesystem>

namespace fsdp {

/// Throws Error where this build has no CUDA.
static const CudaLibrary &loadCuda() {
  // Beside the program. Never closed: CUDA has threads of its own.
  std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() /
      cudaLibraryFile;
  void *file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!file)
    throw Error("the plan is for GPUs, and this build has no CUDA (" +
                std::string(dlerror()) +
                "); build with -DFSDP_BUILD_CUDA=ON, or compile the plan for "
                "device=cpu");
  auto *library =
      static_cast<const CudaLibrary *>(dlsym(file, cudaLibrarySymbol));
  if (!library)
    throw Error(path.string() + " is of another build; build again");
  return *library;
}

int countCudaDevices() { return loadCuda().count(); }

std::unique_ptr<Device> openCudaDevice(int index, unsigned streams) {
  return std::unique_ptr<Device>(loadCuda().open(index, streams));
}

std::string describeCuda() {
  try {
    return loadCuda().describe();
  } catch (const Error &) {
    return "no CUDA";
  }
}

} // namespace fsdp
