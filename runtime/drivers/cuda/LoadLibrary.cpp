#include "Error.h"
#include "drivers/cuda/CudaLibrary.h"

#include <dlfcn.h>
#include <filesystem>

namespace fsdp {

const void *loadBesideProgram(const char *file, const char *symbol) {
  // Never closed: CUDA has threads of its own.
  std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / file;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error("the plan is for GPUs, and this build has no CUDA (" +
                std::string(dlerror()) +
                "); build with -DFSDP_BUILD_CUDA=ON, or compile the plan for "
                "device=cpu");
  const void *table = dlsym(library, symbol);
  if (!table)
    throw Error(path.string() + " is of another build; build again");
  return table;
}

} // namespace fsdp
