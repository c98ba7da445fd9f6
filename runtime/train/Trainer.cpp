#include "train/Trainer.h"

#include "Error.h"
#include "executor/Executor.h"
#include "executor/Scalars.h"
#include "train/Batches.h"
#include "train/Console.h"
#include "train/LoadWeights.h"
#include "train/Metrics.h"
#include "train/RunLength.h"
#include "train/SaveWeights.h"
#include "train/Summary.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <unistd.h>

namespace fsdp {

namespace {

using Clock = std::chrono::steady_clock;

/// The output of a program that clips gradients by their norm.
constexpr const char *gradientNormName = "grad_norm";

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

/// What is written at the end must not fail for what is known at the start.
void checkWritable(const std::string &file) {
  if (file.empty())
    return;
  std::filesystem::path path(file);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error("cannot write " + file + ": it is a folder; name a file");
  std::string folder =
      path.has_parent_path() ? path.parent_path().string() : ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error("cannot write " + file + ": " + std::strerror(errno) +
                "; name a file in a folder that is there");
}

class Trainer {
public:
  Trainer(const plan::LoadedPlan &loaded, const RunOptions &options,
          Communicator &communicator);
  void run();
  void save(const std::function<void(const std::string &)> &onPartialFile);

private:
  void openData();
  void findTokens();
  void noteStart();
  void noteDropped();
  void step(uint64_t step);
  void runMicroBatch(uint64_t step, uint64_t microBatch);
  bool logs(uint64_t step) const {
    return step % options.logInterval == 0 || step == length.steps;
  }
  void log(uint64_t step);
  NamedScalars evaluate(uint64_t step);
  std::vector<double> summed(std::vector<double> values);
  uint64_t epochOf(uint64_t step) const {
    return (step - 1) / length.stepsPerEpoch;
  }

  const plan::LoadedPlan &loaded;
  const plan::PlanT &plan;
  const RunOptions &options;
  Communicator &communicator;
  int64_t seed;
  std::unique_ptr<Executor> executor;
  int stepProgram, accumulateProgram, evalProgram;
  bool clipsByNorm = false; // and gives the norm
  RepeatedInputs repeated;
  std::optional<Batches> data, evalData;
  RunLength length;
  std::optional<MetricsFile> metrics;
  std::optional<Console> console;
  uint64_t microBatches; // per step
  uint64_t plannedBytes = 0;
  std::vector<uint64_t> startPeaks;              // by rank
  int64_t samplesPerStep = 0, tokensPerStep = 0; // all ranks; 0: unknown

  // Of the step that ended last.
  Clock::time_point stepEnd;
  double stepMs = 0, dataWaitMs = 0, exposedCommMs = 0;
  uint64_t offloadBytes = 0;
  std::vector<double> outputs;
  // Sums of this rank's losses in the epoch so far.
  double epochLoss = 0;
  uint64_t epochSteps = 0;
};

Trainer::Trainer(const plan::LoadedPlan &loaded, const RunOptions &options,
                 Communicator &communicator)
    : loaded(loaded), plan(*loaded.plan), options(options),
      communicator(communicator), seed(options.seed.value_or(plan.seed)) {
  auto programNamed = [&](const char *name) {
    for (size_t i = 0; i < plan.programs.size(); ++i)
      if (plan.programs[i]->name == name)
        return static_cast<int>(i);
    return -1;
  };
  stepProgram = programNamed("step");
  accumulateProgram = programNamed("accumulate");
  evalProgram = programNamed("eval");
  microBatches = plan.micro_batches;
  if (stepProgram < 0)
    throw Error(
        "the plan has no program 'step'; lower the training step again");
  for (const auto &output : plan.programs[stepProgram]->outputs)
    clipsByNorm |= output->name == gradientNormName;
  // What costs little is refused first.
  openData();
  length = findLength(plan, options, data ? &*data : nullptr);
  findTokens();
  bool first = communicator.rank() == 0;
  if (first)
    for (const std::string &file : {options.save, options.summary})
      checkWritable(file);
  if (first && !options.metrics.empty())
    metrics.emplace(options.metrics);
  ExecutorOptions how;
  how.seed = seed;
  how.sequentialRandom = options.sequentialRandom;
  how.poison = options.poison;
  how.hostStreams = options.hostStreams;
  executor = std::make_unique<Executor>(plan, communicator, how);
  Start start =
      loadWeights(plan, {options.weights, options.weightsFromRank0, seed},
                  communicator, *executor);
  noteStart();
  repeated = std::move(start.repeated);
  for (const auto &arena : plan.arenas)
    plannedBytes += arena->bytes;
  if (!first)
    return;
  console.emplace(options.progress, length);
  if (start.initialised)
    console->note("note: " + std::to_string(start.initialised) +
                  " tensors start by the model's own recipes, with seed " +
                  std::to_string(seed));
  noteDropped();
}

/// What each rank has taken to have its first values.
void Trainer::noteStart() {
  uint64_t mine = peakResidentBytes();
  startPeaks.assign(communicator.size(), mine);
  if (communicator.size() > 1)
    communicator.allGather(&mine, startPeaks.data(), sizeof(mine),
                           plan::DType::UInt8);
}

/// Says what no epoch and no evaluation gets to see.
void Trainer::noteDropped() {
  if (data) {
    uint64_t batches = data->perEpoch() % microBatches;
    uint64_t samples = data->dropped() + batches * data->globalBatch();
    std::string of = std::to_string(data->globalBatch());
    std::string unit = microBatches == 1
                           ? "batch of " + of
                           : "step of " + std::to_string(microBatches) +
                                 " micro-batches of " + of;
    if (samples)
      console->note("note: " + std::to_string(samples) +
                    " samples of each epoch are left out: they fill no " +
                    unit);
  }
  if (evalData && evalData->dropped())
    console->note("note: " + std::to_string(evalData->dropped()) +
                  " evaluation samples are left out: they fill no batch of " +
                  std::to_string(evalData->globalBatch()));
}

void Trainer::openData() {
  const plan::ProgramT &step = *plan.programs[stepProgram];
  int ranks = communicator.size(), rank = communicator.rank();
  if (readsData(step)) {
    if (options.data.empty())
      throw Error("the plan reads its inputs from data; pass --data FILE");
    data.emplace(step, options.data, ranks, rank, options.shuffle, seed);
  } else if (!options.data.empty()) {
    throw Error("the plan reads no data, its inputs repeat; drop --data, or "
                "export the step with data");
  }
  if (options.evalData.empty()) {
    if (options.evalInterval)
      throw Error("--eval-interval needs --eval-data FILE");
    return;
  }
  if (evalProgram < 0)
    throw Error("the plan has no program 'eval'; export the step with "
                "eval_data, or drop --eval-data");
  if (!readsData(*plan.programs[evalProgram]))
    throw Error("the plan's evaluation reads no data; drop --eval-data");
  evalData.emplace(*plan.programs[evalProgram], options.evalData, ranks, rank,
                   /*shuffle=*/false, seed);
}

/// A token is an element of the largest integer input with a sequence in it.
void Trainer::findTokens() {
  if (!data)
    return;
  samplesPerStep = data->globalBatch() * microBatches;
  const plan::ProgramT &step = *plan.programs[stepProgram];
  for (const auto &input : step.inputs) {
    const plan::ValueT &value = *step.values[input->value];
    if (input->from_data && value.shape.size() == 2 &&
        (value.dtype == plan::DType::Int64 ||
         value.dtype == plan::DType::Int32))
      tokensPerStep = std::max(tokensPerStep, *plan::numElements(value.shape) *
                                                  communicator.size());
  }
  tokensPerStep *= microBatches;
}

/// One small all-reduce, apart from the plan's own collectives.
std::vector<double> Trainer::summed(std::vector<double> values) {
  if (communicator.size() > 1)
    communicator.allReduce(values.data(), values.data(), values.size(),
                           plan::DType::Float64);
  return values;
}

/// Runs one micro-batch and adds its outputs to the step's.
void Trainer::runMicroBatch(uint64_t step, uint64_t microBatch) {
  bool last = microBatch + 1 == microBatches;
  int program = last ? stepProgram : accumulateProgram;
  auto begin = Clock::now();
  repeated.set(program, *executor);
  if (data) {
    uint64_t ofEpoch = (step - 1) % length.stepsPerEpoch;
    data->set(epochOf(step), ofEpoch * microBatches + microBatch, program,
              *executor);
  }
  dataWaitMs += milliseconds(Clock::now() - begin);
  executor->run(program, step, microBatch);
  for (size_t i = 0; i < plan.programs[program]->outputs.size(); ++i)
    outputs[i] += executor->output(program, i);
}

void Trainer::step(uint64_t step) {
  dataWaitMs = 0;
  outputs.assign(plan.programs[stepProgram]->outputs.size(), 0);
  double before = executor->counters().exposedSeconds;
  uint64_t offloaded = executor->counters().offloadBytes;
  executor->setGradientNorm(options.logGradientNorm && !clipsByNorm &&
                            logs(step));
  for (uint64_t m = 0; m < microBatches; ++m)
    runMicroBatch(step, m);
  // What is of the whole step, such as a norm, the last one has in addition.
  if (microBatches > 1)
    for (size_t i = 0; i < plan.programs[accumulateProgram]->outputs.size();
         ++i)
      outputs[i] /= microBatches;
  offloadBytes = executor->counters().offloadBytes - offloaded;
  exposedCommMs = 1e3 * (executor->counters().exposedSeconds - before);

  if (outputs.empty() || std::isnan(outputs[0]))
    throw Error("the loss became NaN in step " + std::to_string(step) +
                " on rank " + std::to_string(communicator.rank()) +
                "; lower the learning rate, or look for bad data with "
                "--no-shuffle --log-interval 1");
  epochLoss += outputs[0];
  ++epochSteps;
}

void Trainer::log(uint64_t step) {
  std::vector<double> values = outputs;
  bool addsNorm = options.logGradientNorm && !clipsByNorm;
  if (addsNorm)
    values.push_back(executor->squaredGradientNorm());
  values = summed(values);
  auto now = Clock::now();
  stepMs = milliseconds(now - stepEnd);
  stepEnd = now;
  if (!console)
    return;
  StepReport report;
  report.step = step;
  report.epoch = epochOf(step) + 1;
  const auto &named = plan.programs[stepProgram]->outputs;
  for (size_t i = 0; i < named.size(); ++i) {
    double mean = values[i] / communicator.size();
    if (named[i]->name == gradientNormName)
      report.gradientNorm = mean; // every rank's is the same
    else
      report.outputs.emplace_back(named[i]->name, mean);
  }
  if (addsNorm)
    report.gradientNorm = std::sqrt(values.back());
  report.learningRates = learningRates(plan, step);
  if (samplesPerStep)
    report.samplesPerSecond = samplesPerStep / (stepMs / 1e3);
  if (tokensPerStep)
    report.tokensPerSecond = tokensPerStep / (stepMs / 1e3);
  report.stepMs = stepMs;
  report.dataWaitMs = dataWaitMs;
  report.exposedCommMs = exposedCommMs;
  if (plan.arenas[plan::hostArena]->bytes)
    report.offloadBytes = offloadBytes;
  report.memoryBytes = plannedBytes;
  report.memoryPeakBytes = peakResidentBytes();
  if (metrics)
    metrics->write(report);
  console->step(report);
}

NamedScalars Trainer::evaluate(uint64_t step) {
  const auto &named = plan.programs[evalProgram]->outputs;
  std::vector<double> sums(named.size());
  for (int64_t batch = 0; batch < evalData->perEpoch(); ++batch) {
    repeated.set(evalProgram, *executor);
    evalData->set(0, batch, evalProgram, *executor);
    executor->run(evalProgram, step);
    for (size_t i = 0; i < named.size(); ++i)
      sums[i] += executor->output(evalProgram, i);
  }
  sums = summed(sums);
  NamedScalars result;
  for (size_t i = 0; i < named.size(); ++i)
    result.emplace_back("eval_" + named[i]->name,
                        sums[i] / (evalData->perEpoch() * communicator.size()));
  return result;
}

void Trainer::run() {
  stepEnd = Clock::now();
  for (uint64_t i = 1; i <= length.steps; ++i) {
    step(i);
    if (logs(i)) {
      log(i);
    } else {
      auto now = Clock::now();
      stepMs = milliseconds(now - stepEnd);
      stepEnd = now;
    }
    bool epochEnds = i % length.stepsPerEpoch == 0 || i == length.steps;
    bool due = evalData && (options.evalInterval ? i % options.evalInterval == 0
                                                 : epochEnds);
    NamedScalars evaluated;
    if (due) {
      evaluated = evaluate(i);
      EvalReport report{i, epochOf(i) + 1, evaluated};
      if (metrics)
        metrics->write(report);
      if (console && !epochEnds)
        console->evaluation(report);
    }
    if (epochEnds) {
      double loss =
          summed({epochLoss})[0] / (double(epochSteps) * communicator.size());
      if (console)
        console->epoch(epochOf(i) + 1, {{"loss", loss}}, evaluated);
      epochLoss = 0;
      epochSteps = 0;
    }
  }
}

void Trainer::save(
    const std::function<void(const std::string &)> &onPartialFile) {
  console.reset();
  // Rank 0's word counts: other nodes may have been told nothing.
  uint8_t wanted = !options.save.empty();
  if (communicator.size() > 1)
    communicator.broadcast(&wanted, 1, plan::DType::UInt8, 0);
  if (wanted)
    saveWeights(plan, options.save, communicator, *executor, onPartialFile);
  if (communicator.rank() == 0 && !options.summary.empty())
    writeSummary(plan, loaded.digest, executor->counters(), length.steps,
                 startPeaks, options.summary);
  communicator.barrier();
}

} // namespace

void train(const plan::LoadedPlan &loaded, const RunOptions &options,
           Communicator &communicator,
           const std::function<void(const std::string &)> &onPartialFile) {
  Trainer trainer(loaded, options, communicator);
  trainer.run();
  trainer.save(onPartialFile);
}

} // namespace fsdp
