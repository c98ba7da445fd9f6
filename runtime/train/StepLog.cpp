#include "train/StepLog.h"

#include "executor/Scalars.h"
#include "train/Summary.h"

#include <algorithm>
#include <cmath>

namespace fsdp {

/// The output of a program that clips gradients by their norm.
static constexpr const char *gradientNormName = "grad_norm";

static bool clipsByNorm(const plan::ProgramT &program) {
  return std::any_of(
      program.outputs.begin(), program.outputs.end(),
      [](const auto &output) { return output->name == gradientNormName; });
}

std::vector<double> sumOverRanks(Communicator &communicator,
                                 std::vector<double> values) {
  // One small all-reduce, apart from the plan's own collectives.
  if (communicator.size() > 1)
    communicator.allReduce(values.data(), values.data(), values.size(),
                           plan::DType::Float64);
  return values;
}

StepLog::StepLog(const plan::PlanT &plan, const RunOptions &options,
                 Communicator &communicator, const TrainingData &data)
    : plan(plan), program(*plan.programs[plan::findProgram(plan, "step")]),
      options(options), communicator(communicator), data(data),
      addsNorm(options.logGradientNorm && !clipsByNorm(program)) {
  if (communicator.rank() == 0 && !options.metrics.empty())
    metrics.emplace(options.metrics);
  for (const auto &arena : plan.arenas)
    plannedBytes += arena->bytes;
}

void StepLog::open(const RunLength &runLength,
                   const std::vector<std::string> &notes) {
  length = runLength;
  if (communicator.rank() == 0)
    console.emplace(options.progress, length);
  for (const std::string &text : notes)
    note(text);
  if (options.graph && addsNorm && options.logInterval == 1)
    note("nothing runs as a CUDA graph: --log-grad-norm reads gradients on the "
         "host in every logged step; log fewer with --log-interval N");
}

void StepLog::note(const std::string &text) {
  if (console)
    console->note("note: " + text);
}

void StepLog::step(const FinishedStep &ended) {
  epochLoss += ended.outputs[0];
  ++epochSteps;
  bool logged = logs(ended.number);
  std::vector<double> sums = ended.outputs;
  if (addsNorm)
    sums.push_back(ended.squaredGradientNorm);
  if (logged)
    sums = sumOverRanks(communicator, sums);
  auto now = Clock::now();
  double stepMs =
      std::chrono::duration<double, std::milli>(now - stepEnd).count();
  stepEnd = now;
  if (!console || !logged)
    return;
  StepReport report = reportOf(ended, sums, stepMs);
  if (metrics)
    metrics->write(report);
  console->step(report);
}

StepReport StepLog::reportOf(const FinishedStep &ended,
                             const std::vector<double> &sums,
                             double stepMs) const {
  StepReport report;
  report.step = ended.number;
  report.epoch = length.epochOf(ended.number) + 1;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const std::string &name = program.outputs[i]->name;
    double mean = sums[i] / communicator.size();
    if (name == gradientNormName)
      report.gradientNorm = mean; // every rank's is the same
    else
      report.outputs.emplace_back(name, mean);
  }
  if (addsNorm)
    report.gradientNorm = std::sqrt(sums.back());
  report.learningRates = learningRates(plan, ended.number);
  if (data.samplesPerStep)
    report.samplesPerSecond = data.samplesPerStep / (stepMs / 1e3);
  if (data.tokensPerStep)
    report.tokensPerSecond = data.tokensPerStep / (stepMs / 1e3);
  report.stepMs = stepMs;
  report.dataWaitMs = ended.dataWaitMs;
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
  if (metrics)
    metrics->write(report);
  if (console && !epochEnds)
    console->evaluation(report);
}

void StepLog::epoch(uint64_t step, const NamedScalars &evaluated) {
  double loss = sumOverRanks(communicator, {epochLoss})[0] /
                (double(epochSteps) * communicator.size());
  if (console)
    console->epoch(length.epochOf(step) + 1, {{"loss", loss}}, evaluated);
  epochLoss = 0;
  epochSteps = 0;
}

} // namespace fsdp
