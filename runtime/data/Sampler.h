#ifndef FSDP_RUNTIME_DATA_SAMPLER_H
#define FSDP_RUNTIME_DATA_SAMPLER_H

#include <cstdint>
#include <vector>

namespace fsdp {

/// The order in which ranks read samples: bit for bit that of
/// torch.utils.data.DistributedSampler(shuffle, seed, drop_last=True) under a
/// DataLoader(batch_size, drop_last=True), with set_epoch(epoch). With `last`
/// that of a DataLoader which keeps the smaller batch at an epoch's end.
struct Sampler {
  int64_t samples; // in the data set
  int ranks;
  int rank;
  int64_t batch; // samples per rank and step
  bool shuffle;
  int64_t seed;
  int64_t last = 0; // samples of the rest, where it is a batch too

  /// Full batches of one rank in an epoch; the same on all ranks.
  int64_t batches() const { return samples / ranks / batch; }

  /// Samples of a rank that fill no full batch.
  int64_t rest() const { return samples / ranks % batch; }
  /// All batches of an epoch, and how many samples of a rank one has.
  int64_t perEpoch() const { return batches() + (last > 0); }
  int64_t sizeOf(int64_t number) const {
    return number < batches() ? batch : last;
  }

  /// Samples of an epoch that no rank reads.
  int64_t dropped() const {
    return samples - (batches() * batch + last) * ranks;
  }

  /// This rank's samples in epoch `epoch` (0 is the first), batch after batch.
  std::vector<int64_t> epoch(int64_t epoch) const;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAMPLER_H
