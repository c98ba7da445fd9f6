#include "launch/MemoryFile.h"

#include "Error.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace fsdp {

// Not closed by exec: those that are started open it by its number.
MemoryFile::MemoryFile() : descriptor(memfd_create("fsdp-run", 0)) {
  if (descriptor < 0)
    throw Error(E::System, std::string("cannot make a file in memory: ") +
                               std::strerror(errno));
}

MemoryFile::~MemoryFile() { close(descriptor); }

std::string MemoryFile::path() const {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

} // namespace fsdp
