#include "train/StepLog.h"

#include "executor/Scalars.h"
#include "plan/ProgramOutputs.h"
#include "train/EventFile.h"
#include "train/Summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace fsdp {

/// The output of a program that clips gradients by their norm.
static constexpr const char *gradientNormName = "grad_norm";

std::vector<double> sumOverRanks(Communicator &communicator,
                                 std::vector<double> values) {
  // One small all-reduce, apart from the plan's own collectives.
  if (communicator.size() > 1)
    communicator.allReduce(values.data(), values.data(), values.size(),
                           plan::DType::Float64);
  return values;
}

StepLog::StepLog(const plan::PlanT &plan, const RunOptions &options,
                 Communicator &communicator, const TrainingData &data,
                 NonFiniteSteps &nonFinite)
    : plan(plan), names(plan::namesOfStep(
                      plan, plan::findProgram(plan, plan::stepProgramName))),
      options(options), communicator(communicator), data(data),
      nonFinite(nonFinite),
      addsNorm(options.logGradientNorm &&
               std::find(names.begin(), names.end(), gradientNormName) ==
                   names.end()) {
  for (const auto &arena : plan.arenas)
    plannedBytes += arena->bytes;
  for (int step : plan::findVariants(plan, plan::stepProgramName))
    works[step] = workOfStep(plan, step, options.peakFlops);
  if (options.logUnits)
    units.emplace(plan);
}

void StepLog::before(uint64_t step, Executor &executor) {
  executor.setGradientNorm((addsNorm || units) && logs(step));
  if (units && logs(step) && communicator.rank() == 0)
    units->begin(executor);
}

void StepLog::open(const RunLength &runLength,
                   const checkpoint::RunPosition *from,
                   const std::vector<std::string> &notes) {
  length = runLength;
  if (from)
    restore(*from);
  if (communicator.rank() == 0 && !options.metrics.empty())
    writers.push_back(
        std::make_unique<MetricsFile>(options.metrics, length.done));
  if (communicator.rank() == 0 && !options.tensorboard.empty())
    writers.push_back(std::make_unique<EventFile>(
        options.tensorboard, length.done, communicator.size()));
  if (communicator.rank() == 0)
    console.emplace(options.progress, length, options.logInterval);
  if (console)
    console->object("run", {{"ranks", communicator.size()},
                            {"steps", length.steps},
                            {"epochs", length.epochs()}});
  for (const std::string &text : notes)
    note(text);
  if (options.graph && (addsNorm || units) &&
      options.logInterval.value_or(1) == 1)
    note("nothing runs as a CUDA graph: " +
         std::string(units ? "--log-units" : "--log-grad-norm") +
         " reads gradients on the host in every logged step; log fewer with "
         "--log-interval N");
}

/// The epoch's losses so far: each rank's own, or, where there are other ranks
/// now, rank 0 has all of them.
void StepLog::restore(const checkpoint::RunPosition &from) {
  epochSteps = from.epochSteps;
  size_t rank = communicator.rank(), size = communicator.size();
  if (from.epochLosses.size() == size) {
    epochLoss = from.epochLosses[rank];
  } else if (rank == 0) {
    for (double loss : from.epochLosses)
      epochLoss += loss;
    epochLoss *= double(size) / std::max<size_t>(from.epochLosses.size(), 1);
  }
}

void StepLog::fill(checkpoint::RunPosition &position,
                   const NamedScalars &evaluated) const {
  position.epochSteps = epochSteps;
  position.epochLosses = {epochLoss};
  position.metrics = latest;
  position.metrics.insert(position.metrics.end(), evaluated.begin(),
                          evaluated.end());
  nonFinite.fill(position);
}

void StepLog::close() {
  for (const auto &writer : writers)
    if (writer->lost())
      note(std::to_string(writer->lost()) + " lines of " + writer->path() +
           " could not be written: " + writer->reason());
  if (console && console->lost()) {
    unprinted = console->lost();
    note(std::to_string(unprinted) +
         " lines could not be printed: " + console->reason());
  }
  console.reset();
}

uint64_t StepLog::lostLines() const {
  uint64_t lost = 0;
  for (const auto &writer : writers)
    lost += writer->lost();
  return lost;
}

/// Training goes on where a line cannot be written.
void StepLog::write(const char *event, const nlohmann::ordered_json &row) {
  if (console)
    console->object(event, row);
  for (const auto &writer : writers) {
    bool first = writer->lost() == 0;
    writer->write(row);
    if (first && writer->lost())
      note("a line of " + writer->path() +
           " could not be written: " + writer->reason() + "; training goes on");
  }
}

void StepLog::note(const std::string &text) {
  if (console)
    console->note(text);
}

void StepLog::step(const FinishedStep &ended, uint64_t failedCheckpoints,
                   Executor &executor) {
  bool logged = logs(ended.number);
  std::vector<double> sums = ended.outputs;
  if (addsNorm)
    sums.push_back(ended.squaredGradientNorm);
  size_t ofUnits = sums.size();
  if (units)
    sums.insert(sums.end(), ended.squaredGradientNorms.begin(),
                ended.squaredGradientNorms.end());
  // A rank adds to its own place alone, so that each one's wait is told.
  size_t waits = sums.size(), ranks = communicator.size();
  sums.resize(waits + ranks);
  sums[waits + communicator.rank()] = ended.dataWaitMs;
  if (logged)
    sums = sumOverRanks(communicator, sums);
  std::string told = nonFinite.look(
      ended, logged ? std::optional<double>(sums[0]) : std::nullopt);
  if (!told.empty())
    note(told + (data.doubt().empty() ? "" : "; " + data.doubt()));
  if (!nonFinite.isLeftOut()) {
    epochLoss += ended.outputs[0];
    ++epochSteps;
  }
  auto now = Clock::now();
  double stepMs =
      std::chrono::duration<double, std::milli>(now - stepEnd).count();
  stepEnd = now;
  if (!console || !logged)
    return;
  StepReport report = reportOf(ended, sums, stepMs);
  auto longest = std::max_element(sums.begin() + waits, sums.end());
  report.dataWaitMs = *longest;
  if (ranks > 1)
    report.dataWaitRank = longest - (sums.begin() + waits);
  report.failedCheckpoints = failedCheckpoints;
  report.nonFiniteSteps = nonFinite.count();
  if (units)
    addUnits(report, ended.program, sums.data() + ofUnits, executor);
  latest = report.outputs;
  write("step", metricsOf(report));
  console->step(report);
}

/// What a scaler multiplied the loss with, and so each gradient.
static double lossScale(const StepReport &report) {
  for (const auto &[name, value] : report.outputs)
    if (name == "loss_scale")
      return value;
  return 1;
}

void StepLog::addUnits(StepReport &report, int step, const double *norms,
                       Executor &executor) {
  report.units = units->end(step, executor);
  for (UnitReport &unit : report.units)
    unit.gradientNorm = std::sqrt(*norms++) / lossScale(report);
  // What is of no unit is told of where there is any.
  const UnitReport &rest = report.units.back();
  if (!rest.communicatedBytes && rest.gradientNorm == 0.0 &&
      rest.exposedCommMs.value_or(0) == 0)
    report.units.pop_back();
}

StepReport StepLog::reportOf(const FinishedStep &ended,
                             const std::vector<double> &sums,
                             double stepMs) const {
  StepReport report;
  report.step = ended.number;
  report.epoch = length.epochOf(ended.number) + 1;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string &name = names[i];
    double mean = sums[i] / communicator.size();
    if (name == gradientNormName)
      report.gradientNorm = mean; // every rank's is the same
    else if (name == skippedOutputName)
      report.skippedSteps = static_cast<uint64_t>(mean);
    else
      report.outputs.emplace_back(name, mean);
  }
  if (addsNorm)
    report.gradientNorm = std::sqrt(sums[names.size()]) / lossScale(report);
  report.learningRates = learningRates(plan, ended.number);
  TrainingData::Amount amount = data.ofStep(ended.program);
  if (amount.samples)
    report.samplesPerSecond = amount.samples / (stepMs / 1e3);
  if (amount.tokens)
    report.tokensPerSecond = amount.tokens / (stepMs / 1e3);
  const StepWork &work = works.at(ended.program);
  if (work.flops)
    report.flopsPerSecond = work.flops / (stepMs / 1e3);
  if (work.peakSeconds) {
    report.flopsUtilization = work.peakSeconds / (stepMs / 1e3);
    report.modelUtilization = work.modelPeakSeconds / (stepMs / 1e3);
  }
  report.stepMs = stepMs;
  report.exposedCommMs = ended.exposedCommMs;
  if (!report.exposedCommMs)
    report.launchMs = ended.launchMs;
  if (plan.arenas[plan::hostArena]->bytes)
    report.offloadBytes = ended.offloadBytes;
  report.memoryBytes = plannedBytes;
  report.memoryPeakBytes = peakResidentBytes();
  return report;
}

void StepLog::evaluation(uint64_t step, const NamedScalars &evaluated,
                         bool epochEnds) {
  EvalReport report{step, length.epochOf(step) + 1, evaluated};
  write("evaluation", metricsOf(report));
  if (console && !epochEnds)
    console->evaluation(report);
}

void StepLog::epoch(uint64_t step, const NamedScalars &evaluated) {
  double loss = sumOverRanks(communicator, {epochLoss})[0] /
                (double(epochSteps) * communicator.size());
  if (console)
    console->epoch(length.epochOf(step) + 1, {{"loss", loss}}, evaluated);
  if (!length.isEpochsLast(step))
    return; // a longer run goes on with this one
  epochLoss = 0;
  epochSteps = 0;
}

} // namespace fsdp
