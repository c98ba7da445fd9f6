#ifndef FSDP_RUNTIME_TRAIN_STEPDECISIONS_H
#define FSDP_RUNTIME_TRAIN_STEPDECISIONS_H

#include "comm/Communicator.h"

#include <chrono>
#include <cstdint>

namespace fsdp {

/// What ranks do alike between two steps, though one alone may know that it is
/// to be done: by its clock, or since somebody sent it a signal.
struct StepDecision {
  int stopSignal = 0; // 0: go on
  bool checkpoint = false;
};

/// Lets ranks agree, not after every step, but a few times a second, so that
/// it costs nothing.
class StepDecisions {
public:
  explicit StepDecisions(Communicator &communicator)
      : communicator(communicator) {}

  /// The same on all ranks, whose wishes are put together: a signal of any,
  /// rank 0's checkpoint. Collective.
  StepDecision after(uint64_t step, const StepDecision &wish);

private:
  using Clock = std::chrono::steady_clock;
  uint64_t stepsUntilNext(uint64_t step);

  Communicator &communicator;
  uint64_t next = 0;  // step after which ranks agree
  uint64_t asked = 0; // step after which they did last
  Clock::time_point when = Clock::now();
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STEPDECISIONS_H
