#ifndef FSDP_RUNTIME_STATE_CHECKPOINTFOLDER_H
#define FSDP_RUNTIME_STATE_CHECKPOINTFOLDER_H

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::checkpoint {

/// The name of the manifest in a checkpoint's folder.
constexpr const char *manifestName = "checkpoint.json";

/// "rank-00001.safetensors".
std::string shardName(int rank);

/// "rank-00001.loader".
std::string loaderName(int rank);

/// A folder that holds the checkpoints of one run, each in a folder of its own.
/// One that is being written has a name that is no checkpoint's, until a rename
/// makes it one; one that is removed loses its name first.
class Folder {
public:
  explicit Folder(std::string path) : root(std::move(path)) {}

  const std::string &path() const { return root; }
  std::string pathOf(uint64_t step) const;
  std::string partialPathOf(uint64_t step) const;

  /// Steps that have a checkpoint, newest first. It may be damaged.
  std::vector<uint64_t> steps() const;

  /// Makes the folder, and keeps every other run out of it for the life of this
  /// object. Throws Error that names who is in it.
  void lock();
  /// Whether the lock still keeps others out: nobody has removed the folder, or
  /// the file.
  bool isLocked() const;
  /// Removes what runs that were killed left half-written. Needs the lock.
  void removePartial() const;
  /// Makes the partial checkpoint of a step a checkpoint. An older one of the
  /// same step is replaced. Throws Error.
  void commit(uint64_t step) const;
  void remove(uint64_t step) const;

  ~Folder();
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;

private:
  std::string root;
  int lockFile = -1;
};

/// The step of a checkpoint's folder by its name; -1: it is none.
int64_t stepOfName(const std::string &name);

/// Brings the names in a folder to the disk. Throws Error.
void syncFolder(const std::string &path);

} // namespace fsdp::checkpoint

#endif // FSDP_RUNTIME_STATE_CHECKPOINTFOLDER_H
