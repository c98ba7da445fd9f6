#include "train/StepDecisions.h"

#include <algorithm>

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

StepDecision StepDecisions::after(uint64_t step, const StepDecision &wish) {
  if (communicator.size() == 1)
    return wish;
  if (step < next)
    return {};
  bool first = communicator.rank() == 0;
  double said[3] = {double(wish.stopSignal),
                    first && wish.checkpoint ? 1.0 : 0.0,
                    first ? double(stepsUntilNext(step)) : 0.0};
  communicator.allReduce(said, said, 3, plan::DType::Float64, 1,
                         plan::ReduceOp::Max);
  next = step + static_cast<uint64_t>(said[2]);
  return {int(said[0]), said[1] != 0};
}

} // namespace fsdp
