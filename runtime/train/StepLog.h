#ifndef FSDP_RUNTIME_TRAIN_STEPLOG_H
#define FSDP_RUNTIME_TRAIN_STEPLOG_H

#include "comm/Communicator.h"
#include "state/CheckpointFormat.h"
#include "train/Console.h"
#include "train/Metrics.h"
#include "train/NonFiniteSteps.h"
#include "train/RunOptions.h"
#include "train/StepRunner.h"
#include "train/StepWork.h"
#include "train/TrainingData.h"
#include "train/UnitMeter.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace fsdp {

/// The sums over all ranks; collective.
std::vector<double> sumOverRanks(Communicator &communicator,
                                 std::vector<double> values);

/// Tells of a run: rank 0's console and metrics. All ranks do the same with it,
/// since what it tells are means over ranks.
class StepLog {
public:
  /// `nonFinite` is told of each step.
  StepLog(const plan::PlanT &plan, const RunOptions &options,
          Communicator &communicator, const TrainingData &data,
          NonFiniteSteps &nonFinite);

  /// Opens rank 0's files of metrics, and its console with `notes`; its bar
  /// counts to `length`. `from`: see findLength(). Throws Error where a file
  /// cannot be made.
  void open(const RunLength &length, const checkpoint::RunPosition *from,
            const std::vector<std::string> &notes);
  void close();
  /// Something to know, which is dropped where no console is open.
  void note(const std::string &text);

  /// The first step begins now.
  void begin() { stepEnd = Clock::now(); }
  /// Has the executor measure what is to be told of the step that comes next.
  void before(uint64_t step, Executor &executor);
  /// `failedCheckpoints`: so many of the run could not be written.
  void step(const FinishedStep &ended, uint64_t failedCheckpoints,
            Executor &executor);
  /// `epochEnds`: epoch() will show it.
  void evaluation(uint64_t step, const NamedScalars &evaluated, bool epochEnds);
  /// The epoch of `step` is over; its evaluation may be empty.
  void epoch(uint64_t step, const NamedScalars &evaluated);

  /// Lines of metrics that could not be written.
  uint64_t lostLines() const;
  /// What nobody could read, as of close().
  uint64_t unprintedLines() const { return unprinted; }
  /// What the rates of operations are of.
  const StepWork &stepWork() const {
    return works.at(plan::findProgram(plan, plan::stepProgramName));
  }

  /// What a checkpoint is to know of losses: this rank's in the epoch so far,
  /// and what was logged last and is evaluated now.
  void fill(checkpoint::RunPosition &position,
            const NamedScalars &evaluated) const;

private:
  using Clock = std::chrono::steady_clock;

  bool logs(uint64_t step) const {
    return step % options.logInterval.value_or(1) == 0 || step == length.steps;
  }
  void restore(const checkpoint::RunPosition &from);
  /// A line of metrics, which tells of `event`.
  void write(const char *event, const nlohmann::ordered_json &row);
  StepReport reportOf(const FinishedStep &ended,
                      const std::vector<double> &sums, double stepMs) const;
  /// `norms`: the squared ones, over all ranks, by unit.
  void addUnits(StepReport &report, int step, const double *norms,
                Executor &executor);

  const plan::PlanT &plan;
  const std::vector<std::string> names; // of a step's outputs
  const RunOptions &options;
  Communicator &communicator;
  const TrainingData &data;
  NonFiniteSteps &nonFinite;
  RunLength length;
  bool addsNorm; // no output is the norm
  std::optional<UnitMeter> units;
  uint64_t plannedBytes = 0;
  std::map<int, StepWork> works; // by number of what is run as a step
  std::vector<std::unique_ptr<MetricsWriter>> writers; // rank 0's
  std::optional<Console> console;
  Clock::time_point stepEnd; // of the step that ended last
  // Sums of this rank's losses in the epoch so far.
  double epochLoss = 0;
  uint64_t epochSteps = 0;
  uint64_t unprinted = 0;
  NamedScalars latest; // rank 0's outputs of the step that was logged last
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STEPLOG_H
