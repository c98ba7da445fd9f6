#ifndef FSDP_RUNTIME_STATE_CHECKPOINTREADER_H
#define FSDP_RUNTIME_STATE_CHECKPOINTREADER_H

#include "Error.h"
#include "data/SafeTensorsFile.h"
#include "state/CheckpointFormat.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp::checkpoint {

/// A checkpoint's bytes are not those that were written.
struct Damage : Error {
  explicit Damage(const std::string &message, E kind = E::CheckpointDamaged)
      : Error(kind, message) {}
};

/// Throws Error where the file cannot be read, or is not what was written.
Manifest readManifestFile(const std::string &path);

/// The manifest of the checkpoint in a folder. Throws Damage.
Manifest readCheckpoint(const std::string &folder);

/// Among the checkpoints of a run the name says which one is the newest. Throws
/// Damage where a folder has another step's.
void requireOwnName(const std::string &folder, const Manifest &manifest);

/// What a rank's loader left in the checkpoint in a folder; empty: it left
/// nothing. Throws Damage that names the file.
std::string readLoaderState(const std::string &folder, const Manifest &manifest,
                            int rank);

/// Reads tensors of a checkpoint, whatever their cuts were, and no block of
/// them that is not asked for. What it gives has the hash that was written.
class Reader {
public:
  /// `manifest` must outlive it.
  Reader(std::string folder, const Manifest &manifest)
      : folder(std::move(folder)), manifest(manifest),
        files(manifest.files.size()) {}

  /// Reads the elements of `wanted` to where its `local` counts from. Of a
  /// tensor that each rank has of its own, rank 0's where `rank` is none of the
  /// checkpoint's. Throws Damage that names file and tensor.
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
