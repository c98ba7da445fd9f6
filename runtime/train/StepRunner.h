#ifndef FSDP_RUNTIME_TRAIN_STEPRUNNER_H
#define FSDP_RUNTIME_TRAIN_STEPRUNNER_H

#include "executor/Executor.h"
#include "train/RepeatedInputs.h"

#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace fsdp {

/// A step that is over, on this rank.
struct FinishedStep {
  uint64_t number = 0;
  int program = -1;            // "step", or a variant of it
  std::vector<double> outputs; // of the program "step"; means of micro-batches
  double dataWaitMs = 0, launchMs = 0;
  std::optional<double> exposedCommMs;
  uint64_t offloadBytes = 0;
  // Of the last micro-batch's run, as the executor has them.
  double squaredGradientNorm = 0;
  std::vector<double> squaredGradientNorms;
};

/// Runs steps: each micro-batch gets its data and is launched. A device's
/// outputs are awaited when the next run is launched, so that it need not wait
/// for the host.
class StepRunner {
public:
  /// Gives a program's inputs the data of a step's micro-batch, from 0.
  using Feed =
      std::function<void(uint64_t step, uint64_t microBatch, int program)>;
  /// The program that a step runs: "step", or the variant that its batch
  /// chooses. Its time is part of waiting for data.
  using Choose = std::function<int(uint64_t step)>;
  using OnFinished = std::function<void(const FinishedStep &)>;

  /// `choose`: null where there is one. `feed`: null where all inputs repeat.
  /// `runsAhead`: runs whose outputs are
  /// awaited only when as many others are launched. Steps finish in their
  /// order, within calls of this class.
  StepRunner(const plan::PlanT &plan, Executor &executor,
             const RepeatedInputs &repeated, Choose choose, Feed feed,
             unsigned runsAhead, OnFinished onFinished);

  void launch(uint64_t step);
  void finishAll();

private:
  void launchMicroBatch(uint64_t step, uint64_t microBatch, int program);
  void collect(unsigned runsAgo);
  void finish();

  struct Step : FinishedStep {
    uint64_t collected = 0; // micro-batches
  };

  const plan::PlanT &plan;
  Executor &executor;
  const RepeatedInputs &repeated;
  Choose choose;
  Feed feed;
  const unsigned runsAhead;
  OnFinished onFinished;
  int stepProgram, accumulateProgram;
  std::deque<Step> steps; // launched, but not finished
  unsigned launched = 0;  // runs whose outputs are not collected
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STEPRUNNER_H
