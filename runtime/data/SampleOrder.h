#ifndef FSDP_RUNTIME_DATA_SAMPLEORDER_H
#define FSDP_RUNTIME_DATA_SAMPLEORDER_H

#include "data/Sampler.h"

#include <ATen/core/Generator.h>
#include <cstdint>
#include <optional>
#include <vector>

namespace fsdp {

enum class OrderKind {
  Shuffle,    // all samples, as Sampler
  Sequential, // as stored
  Blocks,     // blocks of consecutive samples, and the samples within a block
  Random      // with replacement: what one torch.randint for each batch draws
};

struct OrderChoice {
  OrderKind kind = OrderKind::Shuffle;
  int64_t block = 0; // samples; of Blocks
};

/// The samples of each batch, a function of seed, epoch and batch alone: a run
/// that resumes asks for the batch that it is at. In memory are 8 bytes for
/// each sample with Shuffle, for Blocks 16 for each block and 8 for each sample
/// of one.
class SampleOrder {
public:
  /// `geometry.shuffle` is not asked. Throws Error where more samples would be
  /// shuffled than fit into memory.
  SampleOrder(const Sampler &geometry, OrderChoice choice);

  /// This rank's samples of a batch, both counted from 0. They stay until the
  /// next call.
  const int64_t *batch(int64_t epoch, int64_t batch);

private:
  void beginEpoch(int64_t epoch);
  int64_t inBlocks(int64_t position);
  void drawRandom(int64_t number);

  Sampler geometry;
  OrderChoice choice;
  std::vector<int64_t> samples;
  std::optional<int64_t> currentEpoch;
  std::vector<int64_t> shuffled;               // Shuffle: of this rank
  std::vector<int64_t> blocks, seeds, ofBlock; // Blocks
  int64_t lastPlace = 0, currentPlace = -1;    // in `blocks`
  at::Generator generator;                     // Random
  int64_t drawn = 0;                           // batches
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAMPLEORDER_H
