#include "data/FilePool.h"

#include "plan/Files.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace fsdp {

FilePool::~FilePool() {
  for (const Open &file : files)
    close(file.descriptor);
}

int FilePool::open(const std::string &path) {
  if (auto known = byPath.find(path); known != byPath.end()) {
    files.splice(files.begin(), files, known->second);
    return files.front().descriptor;
  }
  if (files.size() == most) {
    close(files.back().descriptor);
    byPath.erase(files.back().path);
    files.pop_back();
  }
  files.push_front({path, openRegularFile(path).descriptor});
  byPath[path] = files.begin();
  return files.front().descriptor;
}

void FilePool::read(const std::string &path, uint64_t begin, uint64_t bytes,
                    char *to) {
  int file = open(path);
  while (bytes) {
    ssize_t n = pread(file, to, bytes, static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      throw Error(E::FileUnreadable,
                  "cannot read " + path + ": " +
                      (n ? std::strerror(errno) : "it became shorter"));
    to += n;
    begin += n;
    bytes -= n;
  }
}

} // namespace fsdp
