#ifndef FSDP_RUNTIME_DATA_SAMPLER_H
#define FSDP_RUNTIME_DATA_SAMPLER_H

#include <cstdint>
#include <vector>

namespace fsdp {

/// The order in which ranks read samples: bit for bit that of
/// torch.utils.data.DistributedSampler(shuffle, seed, drop_last=True) under a
/// DataLoader(batch_size, drop_last=True), with set_epoch(epoch).
struct Sampler {
  int64_t samples; // in the data set
  int ranks;
  int rank;
  int64_t batch; // samples per rank and step
  bool shuffle;
  int64_t seed;

  /// Full batches of one rank in an epoch; the same on all ranks.
  int64_t batches() const { return samples / ranks / batch; }

  /// Samples of an epoch that no rank reads.
  int64_t dropped() const { return samples - batches() * batch * ranks; }

  /// This rank's samples in epoch `epoch` (0 is the first), batches() * batch
  /// of them.
  std::vector<int64_t> epoch(int64_t epoch) const;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAMPLER_H
