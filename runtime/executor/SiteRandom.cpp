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

SiteRandom::SiteRandom(int64_t seed, int rank, bool sequential)
    : seed(seed), rank(rank), sequential(sequential),
      stream(at::detail::createCPUGenerator(static_cast<uint64_t>(seed))) {}

void SiteRandom::enterSite(int64_t site) {
  if (sequential)
    return;
  std::lock_guard<std::mutex> lock(stream.mutex());
  stream.set_current_seed(siteSeed(seed, rank, step, microBatch, site));
}

} // namespace fsdp
