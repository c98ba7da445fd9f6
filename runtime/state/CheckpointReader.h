#ifndef FSDP_RUNTIME_STATE_CHECKPOINTREADER_H
#define FSDP_RUNTIME_STATE_CHECKPOINTREADER_H

#include "Error.h"
#include "data/SafeTensorsFile.h"
#include "state/CheckpointFormat.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp::checkpoint {

/// Thrown where a checkpoint's bytes are not those that were written.
struct Damage : Error {
  explicit Damage(const std::string &message, E kind = E::CheckpointDamaged)
      : Error(kind, message) {}
};

/// Throws Error where the file cannot be read, or is not what was written.
Manifest readManifestFile(const std::string &path);

/// The manifest of the checkpoint in a folder. Throws Damage.
Manifest readCheckpoint(const std::string &folder);

/// Throws Damage where a folder has the name of another step than its manifest:
/// the name says which checkpoint of a run is the newest.
void requireOwnName(const std::string &folder, const Manifest &manifest);

/// The state of a rank's loader in a checkpoint; empty where the loader saved
/// none. Throws Damage that names the file.
std::string readLoaderState(const std::string &folder, const Manifest &manifest,
                            int rank);

/// Reads parts of a checkpoint's tensors, however the run that wrote it cut
/// them. It reads only the blocks that are asked for, and checks the hash of
/// each.
class Reader {
public:
  /// `manifest` must outlive it.
  Reader(std::string folder, const Manifest &manifest)
      : folder(std::move(folder)), manifest(manifest),
        files(manifest.files.size()) {}

  /// Reads the elements of `wanted` into `local`, at the offsets that `wanted`
  /// has. Where each rank has a tensor of its own, it reads that of `rank`, or
  /// of rank 0 where the checkpoint has no such rank. Throws Damage that names
  /// file and tensor.
  void read(const StoredTensor &tensor, const Part &wanted, int rank,
            char *local);

private:
  struct Segment {
    int64_t from, to, bytes; // in the chunk, in local
  };
  SafeTensorsFile &file(uint32_t index);
  void readChunk(const StoredTensor &tensor, const Chunk &chunk,
                 const std::vector<Segment> &segments, char *local);

  std::string folder;
  const Manifest &manifest;
  std::vector<std::unique_ptr<SafeTensorsFile>> files;
  std::vector<char> block;
};

} // namespace fsdp::checkpoint

#endif // FSDP_RUNTIME_STATE_CHECKPOINTREADER_H
