#include "train/SampledBatches.h"

#include "Error.h"
#include "state/Hash.h"

#include <algorithm>

namespace fsdp {

/// So many samples of a set are compared among the ranks.
static constexpr int64_t comparedSamples = 64;

/// Of samples all over the set, the first and the last among them.
static uint64_t hashOfSome(SampleSource &data, size_t columns) {
  int64_t count = std::min(comparedSamples, data.samples());
  std::vector<uint64_t> hashes;
  std::vector<char> bytes;
  for (int64_t i = 0; i < count; ++i) {
    int64_t sample = i * (data.samples() - 1) / std::max<int64_t>(1, count - 1);
    for (size_t c = 0; c < columns; ++c) {
      bytes.resize(data.sampleBytes(c));
      data.read(c, &sample, 1, bytes.data());
      hashes.push_back(checkpoint::hashOf(bytes.data(), bytes.size()));
    }
  }
  return checkpoint::hashOf(hashes.data(), hashes.size() * sizeof(uint64_t));
}

SampledBatches::SampledBatches(const Variants &variants,
                               const std::string &path, int ranks, int rank,
                               bool shuffle, int64_t seed)
    : Batches(variants), inputs(variants[0]),
      data(openSamples(path, inputs.columns)) {
  int64_t batch = inputs.batch();
  geometry = {data->samples(), ranks, rank, batch, shuffle, seed};
  if (batch == 0 || geometry.batches() == 0)
    throw Error(E::TooFewSamples,
                "data in " + path + " has " + std::to_string(data->samples()) +
                    " samples, fewer than one batch of all ranks: " +
                    std::to_string(ranks) + " x " + std::to_string(batch) +
                    " = " + std::to_string(ranks * batch) +
                    "; use more data, fewer ranks or a smaller batch");
  findLast();
  order.emplace(geometry,
                shuffle ? data->order() : OrderChoice{OrderKind::Sequential});
}

void SampledBatches::findLast() {
  for (size_t v = 1; v < variants.size() && !lastVariant; ++v) {
    bool fits = true;
    for (size_t c = 0; c < inputs.columns.size(); ++c) {
      std::vector<int64_t> wanted = inputs.columns[c].shape;
      wanted[0] = geometry.rest();
      const auto &input = *variants[v].inputs[inputs.numbers[c]];
      fits &= variants[v].values[input.value]->shape == wanted;
    }
    if (fits) {
      lastVariant = v;
      geometry.last = geometry.rest();
    }
  }
}

size_t SampledBatches::variantOf(int64_t, int64_t batch) {
  return batch < geometry.batches() ? 0 : lastVariant;
}

std::vector<Found> SampledBatches::found() const {
  OrderChoice choice = data->order();
  std::vector<Found> found = {
      {"samples in " + path(), static_cast<uint64_t>(samples())},
      {"as the order in " + path(), static_cast<uint64_t>(choice.kind)},
      {"samples in a block of the order in " + path(),
       static_cast<uint64_t>(choice.block)}};
  // One rank has nobody to compare what it reads with.
  if (geometry.ranks > 1)
    found.push_back({"as the fingerprint of samples all over " + path(),
                     hashOfSome(*data, inputs.columns.size())});
  return found;
}

void SampledBatches::set(int64_t epoch, int64_t batch, int program,
                         Executor &executor) {
  const int64_t *samples = order->batch(epoch, batch);
  int64_t count = geometry.sizeOf(batch);
  for (size_t c = 0; c < inputs.columns.size(); ++c) {
    // Where the plan has it so, the file is read to where the program reads.
    if (char *place = executor.inputMemory(program, inputs.numbers[c])) {
      data->read(c, samples, count, place);
      continue;
    }
    staging.resize(data->sampleBytes(c) * count);
    data->read(c, samples, count, staging.data());
    executor.setInput(program, inputs.numbers[c], staging.data());
  }
}

} // namespace fsdp
