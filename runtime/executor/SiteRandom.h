#ifndef FSDP_RUNTIME_EXECUTOR_SITERANDOM_H
#define FSDP_RUNTIME_EXECUTOR_SITERANDOM_H

#include "executor/StepNumbers.h"

#include <ATen/core/MT19937RNGEngine.h>
#include <cstdint>
#include <map>
#include <optional>

namespace fsdp {

/// A 64-bit hash of where a random operator runs. Part of what a run means:
/// changing it changes every dropout mask.
uint64_t siteSeed(int64_t seed, int rank, uint64_t step, uint64_t microBatch,
                  int64_t site);

/// One rank's generator. Before each random operator it is seeded with that
/// operator's site, so that results do not depend on order, recomputation or
/// restarts; in sequential mode it is one stream in program order, as PyTorch's
/// default generator after torch.manual_seed(seed). There an operator that
/// repeats one of the same step, by its site, draws that one's numbers again
/// and takes none from the stream.
class SiteRandom {
public:
  SiteRandom(int64_t seed, int rank, bool sequential, Kernels &kernels);

  void beginStep(uint64_t step, uint64_t microBatch);
  void enterSite(int64_t site);
  void leaveSite();
  const at::Generator &generator() const { return stream; }
  bool isSequential() const { return sequential; }

  /// While a graph is captured: operators read their seeds from `numbers`, each
  /// site its own. Null: no longer.
  void seedFrom(StepNumbers *numbers);
  /// Sets the seeds that operators read there to those of the step.
  void setSeeds(StepNumbers &numbers) const;

private:
  /// Where a stream of numbers is: on CPUs the engine and what it holds back,
  /// on GPUs how far it has gone.
  struct Position {
    at::mt19937 engine;
    std::optional<float> nextFloat;
    std::optional<double> nextDouble;
    uint64_t offset = 0;
  };
  Position position() const;
  void moveTo(const Position &position);

  Kernels &kernels;
  StepNumbers *numbers = nullptr; // while a graph is captured
  int64_t seed;
  int rank;
  bool sequential;
  uint64_t step = 0, microBatch = 0;
  at::Generator stream;
  std::map<int64_t, Position> drawn; // by site, of this step
  std::optional<Position> resume;    // behind an operator that repeats
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_SITERANDOM_H
