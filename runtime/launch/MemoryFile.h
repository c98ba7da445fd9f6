#ifndef FSDP_RUNTIME_LAUNCH_MEMORYFILE_H
#define FSDP_RUNTIME_LAUNCH_MEMORYFILE_H

#include <string>

namespace fsdp {

/// A file in no folder, which is gone when the last process that has it ends,
/// however it ends. Throws Error where the system has no room for one.
class MemoryFile {
public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  /// Names it in this process, and in those that it starts.
  std::string path() const;

private:
  int descriptor;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_MEMORYFILE_H
