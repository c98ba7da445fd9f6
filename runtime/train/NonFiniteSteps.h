#ifndef FSDP_RUNTIME_TRAIN_NONFINITESTEPS_H
#define FSDP_RUNTIME_TRAIN_NONFINITESTEPS_H

#include "executor/Executor.h"
#include "plan/PlanTypes.h"
#include "state/CheckpointFormat.h"
#include "train/RunOptions.h"
#include "train/StepDecisions.h"
#include "train/StepRunner.h"

#include <optional>
#include <string>

namespace fsdp {

/// The output of a program that counts the steps it skips.
inline constexpr const char *skippedOutputName = "skipped_steps";

/// In a checkpoint's metrics: the first of the last steps, one behind the
/// other, whose losses were not finite and whose updates were applied.
inline constexpr const char *spoiledSinceName = "nonfinite_since";

/// Follows which steps of a run are not finite, and what becomes of them.
class NonFiniteSteps {
public:
  /// Throws Error where the plan cannot do what the options say. `option`: how
  /// people give the one of such steps, up to its value.
  NonFiniteSteps(const plan::PlanT &plan, const RunOptions &options, int rank,
                 std::string option = "--non-finite ");

  /// The first step comes next. `from`: where the run goes on, or null.
  void begin(const checkpoint::RunPosition *from, Executor &executor);
  /// Looks at the next step. `lossOfAll`: the sum over ranks, where somebody
  /// has made it. Returns what people should know of it; empty: nothing.
  std::string look(const FinishedStep &ended,
                   const std::optional<double> &lossOfAll);

  /// Steps so far whose loss was not finite, as far as this rank has seen.
  uint64_t count() const { return losses; }
  /// Whether the last step is as if it had not been, on all ranks. What a
  /// scaler skips counts for the means of losses, as in a loop of PyTorch's.
  bool isLeftOut() const { return skipped && !isScaler; }
  /// Of the last step, where the run is to stop for it.
  const std::optional<NonFiniteStep> &wish() const { return toStop; }
  /// Adds to a checkpoint's metrics what begin() needs.
  void fill(checkpoint::RunPosition &position) const;

  /// Whether the update of a step whose loss is not finite changes nothing.
  bool skipsUpdates() const { return skippedOutput >= 0; }

private:
  const plan::PlanT &plan;
  const bool stops;
  const int rank;
  const std::string option;
  const int skippedOutput; // of the step; -1: the plan skips nothing
  const bool isScaler;     // what skips
  double skippedSoFar = 0;
  uint64_t losses = 0, events = 0;
  bool skipped = false;
  std::optional<uint64_t> spoiledSince;
  std::optional<NonFiniteStep> toStop;
};

/// "the loss of step 3 is NaN on rank 1", where a run stops for it.
std::string describeStep(const NonFiniteStep &step, uint64_t number);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_NONFINITESTEPS_H
