#ifndef FSDP_RUNTIME_DATA_FILEPOOL_H
#define FSDP_RUNTIME_DATA_FILEPOOL_H

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

namespace fsdp {

/// Reads ranges of more files than a process can have open: the ones that were
/// read last stay open.
class FilePool {
public:
  explicit FilePool(size_t most = 64) : most(most) {}
  ~FilePool();
  FilePool(const FilePool &) = delete;
  FilePool &operator=(const FilePool &) = delete;

  /// Throws Error when the file cannot be read, or ends before `bytes`.
  void read(const std::string &path, uint64_t begin, uint64_t bytes, char *to);

private:
  struct Open {
    std::string path;
    int descriptor;
  };
  int open(const std::string &path);

  size_t most;
  std::list<Open> files; // the last read first
  std::unordered_map<std::string, std::list<Open>::iterator> byPath;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_FILEPOOL_H
