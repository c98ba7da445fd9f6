#ifndef FSDP_RUNTIME_TRAIN_STEPREPORT_H
#define FSDP_RUNTIME_TRAIN_STEPREPORT_H

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

using NamedScalars = std::vector<std::pair<std::string, double>>;

/// What a unit cost in a step.
struct UnitReport {
  std::string name;
  std::optional<double> gradientNorm;
  uint64_t communicatedBytes = 0;
  std::optional<double> exposedCommMs;
};

/// One logged step; docs/metrics.md defines each figure.
struct StepReport {
  uint64_t step = 0;    // from 1
  uint64_t epoch = 0;   // from 1
  NamedScalars outputs; // the first is the loss; means over ranks
  std::optional<double> gradientNorm;
  std::optional<uint64_t> skippedSteps; // so far, where the plan can skip some
  std::vector<double> learningRates;    // by parameter group
  double samplesPerSecond = 0;
  std::optional<double> tokensPerSecond;
  /// Of one rank; as a share of what it could do; and that share without what
  /// backward computes again.
  std::optional<double> flopsPerSecond, flopsUtilization, modelUtilization;
  double stepMs = 0;
  double dataWaitMs = 0;              // of the rank that waited longest
  std::optional<size_t> dataWaitRank; // that one, of several
  // One of them: what the host waits for, or what it leaves to a device.
  std::optional<double> exposedCommMs, launchMs;
  std::optional<uint64_t> offloadBytes; // of this rank, with a host arena
  uint64_t memoryBytes = 0, memoryPeakBytes = 0;
  uint64_t failedCheckpoints = 0, nonFiniteSteps = 0; // so far
  std::vector<UnitReport> units;
};

/// An evaluation: names already begin with "eval_".
struct EvalReport {
  uint64_t step = 0, epoch = 0;
  NamedScalars outputs;
};

/// How long a run is.
struct RunLength {
  uint64_t steps = 0; // of the whole run
  uint64_t stepsPerEpoch = 1;
  uint64_t done = 0; // steps that a run before this one did
  /// How many more steps of data have been read than steps done: not zero where
  /// the run before had batches of another size.
  int64_t ahead = 0;

  uint64_t epochs() const {
    return (steps + ahead + stepsPerEpoch - 1) / stepsPerEpoch;
  }
  /// Of a step, from 0.
  uint64_t epochOf(uint64_t step) const {
    return (step - 1 + ahead) / stepsPerEpoch;
  }
  /// A step's place in its epoch, from 0.
  uint64_t placeOf(uint64_t step) const {
    return (step - 1 + ahead) % stepsPerEpoch;
  }
  /// Whether an epoch's last step is this one.
  bool isEpochsLast(uint64_t step) const {
    return (step + ahead) % stepsPerEpoch == 0;
  }
  /// The last step ends its epoch, whole or not.
  bool endsEpoch(uint64_t step) const {
    return isEpochsLast(step) || step == steps;
  }
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STEPREPORT_H
