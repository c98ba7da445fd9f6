#include "comm/SharedSegment.h"

#include "Error.h"
#include "device/HugePages.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace fsdp {

uint64_t SharedSegment::pageBytes() {
  static const uint64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

static std::string lastError() {
  std::string text = std::strerror(errno);
  if (errno == EMFILE)
    text += "; allow more with ulimit -n";
  if (errno == EFBIG)
    text += ", than ulimit -f allows; allow more";
  return text;
}

SharedSegment SharedSegment::create(uint64_t bytes) {
  // The kernel would promise more, and end a process when it is written.
  uint64_t physical = sysconf(_SC_PHYS_PAGES) * pageBytes();
  if (bytes > physical)
    throw Error(E::OutOfMemory, "a rank needs " + std::to_string(bytes) +
                                    " bytes, this host has " +
                                    std::to_string(physical) +
                                    "; use more ranks or a smaller batch");
  SharedSegment segment;
  segment.bytes = std::max(bytes, pageBytes());
  segment.descriptor = memfd_create("fsdp", MFD_CLOEXEC);
  if (segment.descriptor < 0 ||
      ftruncate(segment.descriptor, segment.bytes) != 0)
    throw Error(E::SharedMemory,
                "cannot share " + std::to_string(bytes) +
                    " bytes with the other ranks: " + lastError());
  segment.map();
  return segment;
}

SharedSegment SharedSegment::open(const Address &address) {
  SharedSegment segment;
  segment.bytes = address.bytes;
  std::string path = "/proc/" + std::to_string(address.process) + "/fd/" +
                     std::to_string(address.descriptor);
  segment.descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (segment.descriptor < 0)
    throw Error(E::SharedMemory, "cannot open " + path + ": " + lastError());
  // The number may stand for another process here.
  struct stat found;
  if (fstat(segment.descriptor, &found) != 0 ||
      found.st_dev != address.device || found.st_ino != address.inode)
    throw Error(E::SharedMemory, path + " is not the memory that was shared");
  segment.map();
  return segment;
}

void SharedSegment::map() {
  memory = mapAligned(bytes, descriptor);
  if (!memory)
    throw Error(E::SharedMemory, "cannot map " + std::to_string(bytes) +
                                     " bytes of shared memory: " + lastError());
}

void SharedSegment::populate() {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;
#endif
  // Before Linux 5.14 the first writes do it.
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
    throw Error(E::OutOfMemory, "cannot have " + std::to_string(bytes) +
                                    " bytes of shared memory: " + lastError());
}

SharedSegment::~SharedSegment() {
  closeDescriptor();
  if (memory)
    munmap(memory, bytes);
}

void SharedSegment::swap(SharedSegment &other) {
  std::swap(descriptor, other.descriptor);
  std::swap(memory, other.memory);
  std::swap(bytes, other.bytes);
}

SharedSegment::Address SharedSegment::address() const {
  struct stat found;
  if (fstat(descriptor, &found) != 0)
    throw Error(E::SharedMemory, "cannot share memory: " + lastError());
  return {getpid(), descriptor, found.st_dev, found.st_ino, bytes};
}

void SharedSegment::showAt(char *target, uint64_t offset,
                           uint64_t count) const {
  if (count && mmap(target, count, PROT_READ, MAP_SHARED | MAP_FIXED,
                    descriptor, static_cast<off_t>(offset)) == MAP_FAILED)
    throw Error(E::SharedMemory, "cannot map " + std::to_string(count) +
                                     " bytes into the window: " + lastError());
}

void SharedSegment::closeDescriptor() {
  if (descriptor >= 0)
    close(descriptor);
  descriptor = -1;
}

} // namespace fsdp
