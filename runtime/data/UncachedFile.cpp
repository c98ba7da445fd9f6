#include "data/UncachedFile.h"

#include "plan/AlignUp.h"
#include "plan/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace fsdp {

/// Whether a file's bytes go past the page cache from now on.
static bool bypassCache(int file, bool bypass) {
  int flags = fcntl(file, F_GETFL);
  return fcntl(file, F_SETFL, bypass ? flags | O_DIRECT : flags & ~O_DIRECT) ==
             0 &&
         bypass;
}

/// Whether all bytes are on the disk; else errno says why not.
static bool writeBlocks(int file, const char *data, uint64_t bytes,
                        const std::function<void()> &beforeBlock) {
  constexpr uint64_t block = 4 << 20, sector = 4096; // of any disk, at most
  bool isDirect = bypassCache(file, true);
  uint64_t at = 0;
  while (at < bytes) {
    beforeBlock();
    uint64_t length = std::min(block, bytes - at);
    if (isDirect)
      length = alignUp(length, sector);
    ssize_t n = pwrite(file, data + at, length, at);
    if (n < 0 && errno == EINTR)
      continue;
    // The file system has no such way, or only in larger steps.
    if (n < 0 && errno == EINVAL && isDirect) {
      isDirect = bypassCache(file, false);
      continue;
    }
    if (n <= 0)
      return false;
    at += n;
  }
  return (at == bytes || ftruncate(file, bytes) == 0) && fsync(file) == 0;
}

void writeUncached(const std::string &path, const char *data, uint64_t bytes,
                   const std::function<void()> &beforeBlock) {
  struct Opened {
    int file;
    ~Opened() { close(file); }
  } opened{makeFile(path)};
  if (!writeBlocks(opened.file, data, bytes, beforeBlock))
    throw Error(E::FileUnwritable,
                "cannot write '" + path + "': " + std::strerror(errno));
}

} // namespace fsdp
