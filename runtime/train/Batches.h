#ifndef FSDP_RUNTIME_TRAIN_BATCHES_H
#define FSDP_RUNTIME_TRAIN_BATCHES_H

#include "data/DataSet.h"
#include "data/Sampler.h"
#include "executor/Executor.h"

#include <optional>

namespace fsdp {

/// What a program, or several with the same inputs, read from a data set, batch
/// after batch.
class Batches {
public:
  /// `shuffle` and `seed` as DistributedSampler's. Throws Error when `path`
  /// does not fit the program or holds less than one batch of all ranks.
  Batches(const plan::ProgramT &program, const std::string &path, int ranks,
          int rank, bool shuffle, int64_t seed);

  /// Batches of an epoch; the same on all ranks.
  int64_t perEpoch() const { return sampler.batches(); }
  /// Samples per batch, all ranks together.
  int64_t globalBatch() const { return sampler.batch * sampler.ranks; }
  /// In the data set.
  int64_t samples() const { return sampler.samples; }
  int64_t dropped() const { return sampler.dropped(); }
  const std::string &path() const { return data.path(); }

  /// Gives a program's inputs batch `batch` of epoch `epoch`, both from 0.
  void set(int64_t epoch, int64_t batch, int program, Executor &executor);

private:
  std::vector<size_t> inputs; // of the program, by column
  DataSet data;
  Sampler sampler;
  std::optional<int64_t> currentEpoch;
  std::vector<int64_t> order;
  std::vector<char> staging;
};

/// Samples of all ranks and micro-batches in a step.
inline uint64_t samplesOfStep(const plan::PlanT &plan, const Batches &data) {
  return data.globalBatch() * plan.micro_batches;
}

/// Does the program read anything from data?
bool readsData(const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_BATCHES_H
