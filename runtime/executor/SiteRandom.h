#ifndef FSDP_RUNTIME_EXECUTOR_SITERANDOM_H
#define FSDP_RUNTIME_EXECUTOR_SITERANDOM_H

#include <ATen/core/Generator.h>
#include <cstdint>

namespace fsdp {

/// A 64-bit hash of where a random operator runs. Part of what a run means:
/// changing it changes every dropout mask.
uint64_t siteSeed(int64_t seed, int rank, uint64_t step, uint64_t microBatch,
                  int64_t site);

/// One rank's generator. Before each random operator it is seeded with that
/// operator's site, so that results do not depend on order, recomputation or
/// restarts; in sequential mode it is one stream in program order, as PyTorch's
/// default generator after torch.manual_seed(seed).
class SiteRandom {
public:
  SiteRandom(int64_t seed, int rank, bool sequential);

  void beginStep(uint64_t step, uint64_t microBatch) {
    this->step = step;
    this->microBatch = microBatch;
  }
  void enterSite(int64_t site);
  const at::Generator &generator() const { return stream; }

private:
  int64_t seed;
  int rank;
  bool sequential;
  uint64_t step = 0, microBatch = 0;
  at::Generator stream;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_SITERANDOM_H
