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
  int program = -1; // "step", or a variant of it: of the first turn
  std::vector<double>
      outputs; // as namesOfStep() has them; means of micro-batches
  double dataWaitMs = 0, launchMs = 0;
  std::optional<double> exposedCommMs;
  uint64_t offloadBytes = 0;
  // Of the last micro-batch's run, as the executor has them; sums over turns.
  double squaredGradientNorm = 0;
  std::vector<double> squaredGradientNorms;
};

/// Runs steps: each micro-batch gets its data and is launched, the last one as
/// often as there are turns. A device's outputs are awaited when the next run
/// is launched, so that it need not wait for the host.
class StepRunner {
public:
  /// Gives a program's inputs the data of a step's micro-batch, from 0; once
  /// for each turn.
  using Feed =
      std::function<void(uint64_t step, uint64_t microBatch, int program)>;
  /// The program that a step begins with: "step", or the variant that its batch
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
  void launchRun(uint64_t step, uint64_t microBatch, int program);
  struct Step;
  void addNorms(Step &step) const;
  void collect(unsigned runsAgo);
  void finish();

  struct Step : FinishedStep {
    uint64_t runs = 0, collected = 0;
    size_t place = 0; // of the next run's outputs
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
