#include "train/StepDecisions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fsdp {

/// As many steps as a quarter of a second has had lately.
uint64_t StepDecisions::stepsUntilNext(uint64_t step) {
  constexpr double seconds = 0.25;
  auto now = Clock::now();
  double passed = std::chrono::duration<double>(now - when).count();
  double steps = asked ? step - asked : 1;
  asked = step;
  when = now;
  double wanted = passed > 0 ? steps * seconds / passed : 1;
  // Steps may become slower: grow slowly, shrink at once.
  return std::max(1.0, std::min({wanted, 2 * steps, 1000.0}));
}

/// A rank and what its loss is, as a number that can be compared; -1: nothing.
static double encode(const std::optional<NonFiniteStep> &step) {
  if (!step)
    return -1;
  int kind = std::isnan(step->loss)      ? 3
             : std::isfinite(step->loss) ? 0
             : step->loss > 0            ? 1
                                         : 2;
  return 4.0 * step->rank + kind;
}

static std::optional<NonFiniteStep> decode(double code) {
  if (code < 0)
    return std::nullopt;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double losses[] = {0, infinity, -infinity, std::nan("")};
  int number = static_cast<int>(code);
  return NonFiniteStep{number / 4, losses[number % 4]};
}

StepDecision StepDecisions::after(uint64_t step, const StepDecision &wish) {
  if (communicator.size() == 1)
    return wish;
  if (step < next && !always)
    return {};
  bool first = communicator.rank() == 0;
  double said[] = {double(wish.stopSignal),
                   first && wish.checkpoint ? 1.0 : 0.0,
                   first && !always ? double(stepsUntilNext(step)) : 0.0,
                   encode(wish.nonFinite)};
  communicator.allReduce(said, said, std::size(said), plan::DType::Float64, 1,
                         plan::ReduceOp::Max);
  next = step + static_cast<uint64_t>(said[2]);
  return {int(said[0]), said[1] != 0, decode(said[3])};
}

} // namespace fsdp
