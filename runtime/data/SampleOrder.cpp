#include "data/SampleOrder.h"

#include "Error.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randperm.h>
#include <algorithm>

namespace fsdp {

// 8 bytes each: 2 GiB.
static constexpr int64_t mostShuffled = int64_t{1} << 28;

static std::vector<int64_t> numbersOf(const at::Tensor &tensor) {
  const int64_t *data = tensor.const_data_ptr<int64_t>();
  return {data, data + tensor.numel()};
}

SampleOrder::SampleOrder(const Sampler &geometry, OrderChoice choice)
    : geometry(geometry), choice(choice), samples(geometry.batch) {
  this->geometry.shuffle = true;
  int64_t shuffled = choice.kind == OrderKind::Shuffle  ? geometry.samples
                     : choice.kind == OrderKind::Blocks ? choice.block
                                                        : 0;
  if (choice.kind == OrderKind::Blocks)
    shuffled = std::max(shuffled, (geometry.samples - 1) / choice.block + 1);
  if (shuffled > mostShuffled)
    throw Error(
        E::OutOfMemory,
        "shuffling " + std::to_string(shuffled) +
            " samples or blocks takes more memory than a rank has; choose "
            "the order 'random', or 'blocks' of another size");
}

const int64_t *SampleOrder::batch(int64_t epoch, int64_t batch) {
  if (choice.kind == OrderKind::Random) {
    drawRandom(epoch * geometry.perEpoch() + batch);
    return samples.data();
  }
  if (currentEpoch != epoch)
    beginEpoch(epoch);
  if (choice.kind == OrderKind::Shuffle)
    return shuffled.data() + batch * geometry.batch;
  for (int64_t i = 0; i < geometry.sizeOf(batch); ++i) {
    int64_t position =
        (batch * geometry.batch + i) * geometry.ranks + geometry.rank;
    samples[i] =
        choice.kind == OrderKind::Blocks ? inBlocks(position) : position;
  }
  return samples.data();
}

void SampleOrder::beginEpoch(int64_t epoch) {
  currentEpoch = epoch;
  if (choice.kind == OrderKind::Shuffle)
    shuffled = geometry.epoch(epoch);
  if (choice.kind != OrderKind::Blocks)
    return;
  at::Generator ofEpoch = at::detail::createCPUGenerator(geometry.seed + epoch);
  int64_t count = (geometry.samples - 1) / choice.block + 1;
  blocks = numbersOf(at::randperm(count, ofEpoch, at::kLong));
  // PyTorch's generator takes 32 bits of a seed.
  seeds = numbersOf(at::randint(int64_t{1} << 31, {count}, ofEpoch, at::kLong));
  lastPlace =
      std::find(blocks.begin(), blocks.end(), count - 1) - blocks.begin();
  currentPlace = -1;
}

/// The last block may be shorter: what follows it in the order moves up.
int64_t SampleOrder::inBlocks(int64_t position) {
  int64_t size = choice.block;
  int64_t missing =
      static_cast<int64_t>(blocks.size()) * size - geometry.samples;
  if (position >= (lastPlace + 1) * size - missing)
    position += missing;
  int64_t place = position / size;
  if (place != currentPlace) {
    int64_t length = place == lastPlace ? size - missing : size;
    ofBlock = numbersOf(at::randperm(
        length, at::detail::createCPUGenerator(seeds[place]), at::kLong));
    currentPlace = place;
  }
  return blocks[place] * size + ofBlock[position % size];
}

void SampleOrder::drawRandom(int64_t number) {
  if (!generator.defined() || drawn > number) {
    generator = at::detail::createCPUGenerator(geometry.seed + geometry.rank);
    drawn = 0;
  }
  // What was drawn before is drawn again: some nanoseconds for each sample.
  for (; drawn <= number; ++drawn)
    samples = numbersOf(at::randint(
        geometry.samples, {geometry.sizeOf(drawn % geometry.perEpoch())},
        generator, at::kLong));
}

} // namespace fsdp
