#ifndef FSDP_RUNTIME_TRAIN_STEPDECISIONS_H
#define FSDP_RUNTIME_TRAIN_STEPDECISIONS_H

#include "comm/Communicator.h"

#include <chrono>
#include <cstdint>
#include <optional>

namespace fsdp {

/// A step for which a run is to stop.
struct NonFiniteStep {
  int rank = 0;
  double loss = 0; // that rank's; finite where a gradient is not
};

/// What ranks do alike between two steps, though one alone may know that it is
/// to be done: by its clock, or since somebody sent it a signal.
struct StepDecision {
  int stopSignal = 0; // 0: go on
  bool checkpoint = false;
  std::optional<NonFiniteStep> nonFinite;
};

/// Lets ranks agree, not after every step, but a few times a second, so that
/// it costs nothing.
class StepDecisions {
public:
  /// `always`: they agree after every step all the same.
  StepDecisions(Communicator &communicator, bool always)
      : communicator(communicator), always(always) {}

  /// The same on all ranks, whose wishes are put together: a signal of any,
  /// rank 0's checkpoint, a step of the last rank that has one. Collective.
  StepDecision after(uint64_t step, const StepDecision &wish);

private:
  using Clock = std::chrono::steady_clock;
  uint64_t stepsUntilNext(uint64_t step);

  Communicator &communicator;
  const bool always;
  uint64_t next = 0;  // step after which ranks agree
  uint64_t asked = 0; // step after which they did last
  Clock::time_point when = Clock::now();
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STEPDECISIONS_H
