#ifndef FSDP_RUNTIME_STATE_CHECKPOINTFORMAT_H
#define FSDP_RUNTIME_STATE_CHECKPOINTFORMAT_H

#include "state/StateMap.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// What a checkpoint is in files; docs/checkpoints.md describes it for people.

namespace fsdp::checkpoint {

/// Elements of a tensor that lie in one file, under the tensor's name: the
/// part's runs one after the other. `hashes` has one for each block.
struct Chunk {
  uint32_t file = 0; // of the manifest's
  Part part;         // `local` counts in the chunk
  std::vector<uint64_t> hashes;
  /// The rank whose own it is, where ranks have different values: see
  /// StoredTensor::isPerRank.
  int rank = 0;
};

struct StoredTensor : NamedTensor {
  plan::Role role = plan::Role::Parameter;
  /// Of optimizer state: the parameter's name.
  std::string parameter;
  /// Each rank has a value of its own, such as the statistics of BatchNorm or
  /// a parameter that is in no unit; a chunk is one rank's whole tensor. Else
  /// chunks are cuts of one tensor.
  bool isPerRank = false;
  std::vector<Chunk> chunks;
};

struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  uint64_t headerHash = 0; // of all that stands before the data
  uint64_t headerBytes = 0;
};

/// What a rank's loader said of where it was, in a file of its own.
struct StoredLoader {
  int rank = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

/// Where a run was when it wrote a checkpoint.
struct RunPosition {
  uint64_t step = 0; // steps that are done
  int64_t seed = 0;
  uint64_t epoch = 0;          // from 0, of the next step
  uint64_t samplesInEpoch = 0; // of all ranks, that are done
  uint64_t samples = 0;        // in the data set; 0: there is none
  /// Of each rank in the epoch so far, for the mean that is shown at its end.
  uint64_t epochSteps = 0;
  std::vector<double> epochLosses;
  /// Of the last step and the last evaluation, as metrics have them.
  std::vector<std::pair<std::string, double>> metrics;
};

struct Manifest {
  RunPosition run;
  std::string plan; // its digest
  std::vector<std::pair<std::string, uint32_t>> mesh;
  std::vector<StoredFile> files;     // by rank
  std::vector<StoredLoader> loaders; // of ranks whose loader has a state
  std::vector<StoredTensor> tensors;

  uint32_t ranks() const;
};

/// The text of a manifest; a hash of the rest stands at its beginning.
std::string writeManifest(const Manifest &manifest);
/// Throws Error with the reason, which begins with `name`, where the text is
/// not, byte by byte, what writeManifest() gave.
Manifest readManifest(const std::string &text, const std::string &name);

/// The shape of a chunk in its file: the tensor's with fewer rows where the
/// part is some of its rows, else one dimension.
std::vector<int64_t> shapeOfChunk(const Part &part,
                                  const std::vector<int64_t> &shape);

} // namespace fsdp::checkpoint

#endif // FSDP_RUNTIME_STATE_CHECKPOINTFORMAT_H
