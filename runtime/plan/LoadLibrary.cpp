#include "plan/LoadLibrary.h"

#include "Error.h"

#include <dlfcn.h>
#include <filesystem>
#include <string>

namespace fsdp {

const void *loadBesideProgram(const char *file, const char *symbol,
                              const char *otherwise) {
  // Never closed: such a library may have threads of its own.
  std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / file;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(E::Installation,
                std::string(otherwise) + " (" + dlerror() + ")");
  const void *table = dlsym(library, symbol);
  if (!table)
    throw Error(E::Installation,
                path.string() + " is of another build; build again");
  return table;
}

} // namespace fsdp
