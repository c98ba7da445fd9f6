#include "Error.h"
#include "drivers/cuda/NcclLibrary.h"
#include "plan/LoadedLibraries.h"

#include <cstdlib>
#include <dlfcn.h>

namespace fsdp {

constexpr const char *ncclFile = "libnccl.so.2";

/// Throws Error where the library has no such function.
template <typename Function>
static void find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    throw Error(E::Nccl, std::string(ncclFile) + " has no " + name +
                             "; use the one that PyTorch installs");
}

/// Null where it has none.
template <typename Function>
static void findNewer(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

static NcclFunctions load() {
  // Two communicators may run at once, and their kernels wait for each other
  // where ranks start them in different orders. A plan has one order, and NCCL
  // since 2.26 keeps the order of launches if asked before its first call.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  // Never closed: NCCL has threads of its own.
  void *library = dlopen(ncclFile, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(
        E::Nccl,
        "the plan's ranks are GPUs, and there is no NCCL (" +
            std::string(dlerror()) +
            "); install the one that PyTorch needs, or run with --threads");
  checkOneNccl(loadedLibraries("libnccl.so"));
  NcclFunctions nccl;
  // The version first: an old one has not all functions.
  find(library, "ncclGetVersion", nccl.getVersion);
  int version = 0;
  nccl.getVersion(&version);
  checkNcclVersion(version);
#define NCCL_FUNCTION(FUNCTION, MEMBER) find(library, #FUNCTION, nccl.MEMBER);
#define NCCL_NEWER_FUNCTION(FUNCTION, MEMBER)                                  \
  findNewer(library, #FUNCTION, nccl.MEMBER);
#include "drivers/cuda/NcclFunctions.def"
#undef NCCL_FUNCTION
#undef NCCL_NEWER_FUNCTION
  return nccl;
}

const NcclFunctions &ncclFunctions() {
  static const NcclFunctions functions = load();
  return functions;
}

} // namespace fsdp
