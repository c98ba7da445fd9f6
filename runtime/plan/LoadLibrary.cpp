#include "plan/LoadLibrary.h"

#include "Error.h"

#include <dlfcn.h>
#include <filesystem>
#include <string>

namespace fsdp {

/// The program, or the library of Python's, that this code is part of.
static std::filesystem::path ownFile() {
  Dl_info info;
  std::filesystem::path file;
  if (dladdr(reinterpret_cast<void *>(&ownFile), &info) && info.dli_fname)
    file = info.dli_fname;
  // Of the program itself that may be the word by which it was called.
  bool isProgram = !file.has_parent_path() || file.extension() != ".so";
  return isProgram ? std::filesystem::read_symlink("/proc/self/exe") : file;
}

const void *loadBesideProgram(const char *file, const char *symbol,
                              const char *otherwise) {
  // Never closed: such a library may have threads of its own.
  std::filesystem::path path = ownFile().parent_path() / file;
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
