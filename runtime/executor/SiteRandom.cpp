#include "executor/SiteRandom.h"

#include <ATen/CPUGeneratorImpl.h>
#include <mutex>

namespace fsdp {

// splitmix64's finaliser (Steele, Lea and Flood, 2014).
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t siteSeed(int64_t seed, int rank, uint64_t step, uint64_t microBatch,
                  int64_t site) {
  uint64_t h = mix(static_cast<uint64_t>(seed));
  h = mix(h ^ static_cast<uint64_t>(rank));
  h = mix(h ^ step);
  h = mix(h ^ microBatch);
  return mix(h ^ static_cast<uint64_t>(site));
}

SiteRandom::SiteRandom(int64_t seed, int rank, bool sequential,
                       Kernels &kernels)
    : kernels(kernels), seed(seed), rank(rank), sequential(sequential),
      stream(kernels.makeGenerator(static_cast<uint64_t>(seed))) {}

SiteRandom::Position SiteRandom::position() const {
  if (!stream.device().is_cpu())
    return {at::mt19937(), {}, {}, stream.get_offset()};
  auto *impl = at::check_generator<at::CPUGeneratorImpl>(stream);
  return {impl->engine(), impl->next_float_normal_sample(),
          impl->next_double_normal_sample(), 0};
}

void SiteRandom::moveTo(const Position &position) {
  if (!stream.device().is_cpu())
    return stream.set_offset(position.offset);
  auto *impl = at::check_generator<at::CPUGeneratorImpl>(stream);
  impl->set_engine(position.engine);
  impl->set_next_float_normal_sample(position.nextFloat);
  impl->set_next_double_normal_sample(position.nextDouble);
}

void SiteRandom::beginStep(uint64_t step, uint64_t microBatch) {
  this->step = step;
  this->microBatch = microBatch;
  drawn.clear();
}

void SiteRandom::seedFrom(StepNumbers *from) {
  if (!from)
    kernels.seedFromMemory(stream, nullptr);
  numbers = from;
}

void SiteRandom::setSeeds(StepNumbers &numbers) const {
  numbers.setSeeds([&](int64_t site) {
    return siteSeed(seed, rank, step, microBatch, site);
  });
}

void SiteRandom::enterSite(int64_t site) {
  if (numbers)
    return kernels.seedFromMemory(stream, numbers->seedOf(site));
  std::lock_guard<std::mutex> lock(stream.mutex());
  if (!sequential)
    return stream.set_current_seed(
        siteSeed(seed, rank, step, microBatch, site));
  Position now = position();
  auto [start, isFirst] = drawn.try_emplace(site, now);
  if (isFirst)
    return;
  resume = now;
  moveTo(start->second);
}

void SiteRandom::leaveSite() {
  if (!resume)
    return;
  std::lock_guard<std::mutex> lock(stream.mutex());
  moveTo(*resume);
  resume.reset();
}

} // namespace fsdp
