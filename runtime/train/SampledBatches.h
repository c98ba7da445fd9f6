#ifndef FSDP_RUNTIME_TRAIN_SAMPLEDBATCHES_H
#define FSDP_RUNTIME_TRAIN_SAMPLEDBATCHES_H

#include "train/Batches.h"

namespace fsdp {

/// Batches of samples that each rank reads from files, in an order that
/// follows from the seed.
class SampledBatches : public Batches {
public:
  /// Without `shuffle` samples come as stored, whatever order they ask for.
  /// What fills no batch at an epoch's end is one where a variant reads as
  /// many. Throws Error when `path` does not fit the program or holds less than
  /// one batch of all ranks.
  SampledBatches(const Variants &variants, const std::string &path, int ranks,
                 int rank, bool shuffle, int64_t seed);

  int64_t perEpoch() const override { return geometry.perEpoch(); }
  int64_t globalBatch() const override {
    return geometry.batch * geometry.ranks;
  }
  int64_t samples() const override { return geometry.samples; }
  int64_t dropped() const override { return geometry.dropped(); }
  std::vector<Found> found() const override;
  const std::string &path() const override { return data->path(); }
  void set(int64_t epoch, int64_t batch, int program,
           Executor &executor) override;

protected:
  size_t variantOf(int64_t epoch, int64_t batch) override;

private:
  void findLast();

  DataInputs inputs;
  size_t lastVariant = 0; // of what is left at an epoch's end
  std::unique_ptr<SampleSource> data;
  Sampler geometry;
  std::optional<SampleOrder> order;
  std::vector<char> staging;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_SAMPLEDBATCHES_H
