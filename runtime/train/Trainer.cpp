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
#include <deque>
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
          Communicator &communicator, Backend &backend);
  void run();
  void save(const std::function<void(const std::string &)> &onPartialFile);

private:
  void openData();
  void findTokens();
  void noteStart();
  void noteDropped();
  void step(uint64_t step);
  void runMicroBatch(uint64_t step, uint64_t microBatch);
  void collect(unsigned runsAgo);
  void collectAll();
  void finishStep();
  bool logs(uint64_t step) const {
    return step % options.logInterval == 0 || step == length.steps;
  }
  void log();
  NamedScalars evaluate(uint64_t step);
  std::vector<double> summed(std::vector<double> values);
  uint64_t epochOf(uint64_t step) const {
    return (step - 1) / length.stepsPerEpoch;
  }

  const plan::LoadedPlan &loaded;
  const plan::PlanT &plan;
  const RunOptions &options;
  Communicator &communicator;
  /// Runs whose outputs are awaited only when the next ones are launched.
  const unsigned runsAhead;
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

  /// A step whose runs are launched, but whose outputs are not all there.
  struct Step {
    uint64_t number = 0;
    uint64_t collected = 0; // micro-batches
    std::vector<double> outputs;
    double dataWaitMs = 0, launchMs = 0;
    std::optional<double> exposedCommMs;
    uint64_t offloadBytes = 0;
    double squaredGradientNorm = 0;
  };
  std::deque<Step> steps;
  unsigned launched = 0; // runs whose outputs are not collected

  Clock::time_point stepEnd;
  double stepMs = 0; // of the step that ended last
  // Sums of this rank's losses in the epoch so far.
  double epochLoss = 0;
  uint64_t epochSteps = 0;
};

Trainer::Trainer(const plan::LoadedPlan &loaded, const RunOptions &options,
                 Communicator &communicator, Backend &backend)
    : loaded(loaded), plan(*loaded.plan), options(options),
      communicator(communicator), runsAhead(backend.isHost() ? 0 : 1),
      seed(options.seed.value_or(plan.seed)) {
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
  how.graph = options.graph;
  how.note = [this](const std::string &text) {
    if (console)
      console->note("note: " + text);
  };
  executor = std::make_unique<Executor>(plan, backend, how);
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
  auto ready = Clock::now();
  steps.back().dataWaitMs += milliseconds(ready - begin);
  executor->run(program, step, microBatch);
  steps.back().launchMs += milliseconds(Clock::now() - ready);
}

void Trainer::step(uint64_t step) {
  steps.emplace_back().number = step;
  steps.back().outputs.resize(plan.programs[stepProgram]->outputs.size());
  const Counters &counters = executor->counters();
  std::optional<Streams::Times> before = counters.communication;
  uint64_t offloaded = counters.offloadBytes;
  executor->setGradientNorm(options.logGradientNorm && !clipsByNorm &&
                            logs(step));
  for (uint64_t m = 0; m < microBatches; ++m) {
    runMicroBatch(step, m);
    if (m + 1 == microBatches) {
      Step &last = steps.back();
      last.offloadBytes = counters.offloadBytes - offloaded;
      last.squaredGradientNorm = executor->squaredGradientNorm();
      if (before && counters.communication)
        last.exposedCommMs =
            1e3 * (counters.communication->exposed - before->exposed);
    }
    if (++launched > runsAhead)
      collect(runsAhead);
  }
}

/// Adds the outputs of a run, the oldest whose are not collected, to its
/// step's.
void Trainer::collect(unsigned runsAgo) {
  Step &step = steps.front();
  std::vector<double> values = executor->outputs(runsAgo);
  for (size_t i = 0; i < values.size(); ++i)
    step.outputs[i] += values[i];
  --launched;
  if (++step.collected == microBatches)
    finishStep();
}

void Trainer::collectAll() {
  while (launched)
    collect(launched - 1);
}

void Trainer::finishStep() {
  Step &step = steps.front();
  // What is of the whole step, such as a norm, the last one has in addition.
  if (microBatches > 1)
    for (size_t i = 0; i < plan.programs[accumulateProgram]->outputs.size();
         ++i)
      step.outputs[i] /= microBatches;
  if (step.outputs.empty() || std::isnan(step.outputs[0]))
    throw Error("the loss became NaN in step " + std::to_string(step.number) +
                " on rank " + std::to_string(communicator.rank()) +
                "; lower the learning rate, or look for bad data with "
                "--no-shuffle --log-interval 1");
  epochLoss += step.outputs[0];
  ++epochSteps;
  log();
  steps.pop_front();
}

/// Tells of the first step of the list, which is over.
void Trainer::log() {
  const Step &ended = steps.front();
  const uint64_t step = ended.number;
  bool logged = logs(step), addsNorm = options.logGradientNorm && !clipsByNorm;
  std::vector<double> values = ended.outputs;
  if (addsNorm)
    values.push_back(ended.squaredGradientNorm);
  if (logged)
    values = summed(values);
  auto now = Clock::now();
  stepMs = milliseconds(now - stepEnd);
  stepEnd = now;
  if (!console || !logged)
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
  report.dataWaitMs = ended.dataWaitMs;
  report.exposedCommMs = ended.exposedCommMs;
  if (!report.exposedCommMs)
    report.launchMs = ended.launchMs;
  if (plan.arenas[plan::hostArena]->bytes)
    report.offloadBytes = ended.offloadBytes;
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
    std::vector<double> values = executor->outputs();
    for (size_t i = 0; i < named.size(); ++i)
      sums[i] += values[i];
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
    bool epochEnds = i % length.stepsPerEpoch == 0 || i == length.steps;
    bool due = evalData && (options.evalInterval ? i % options.evalInterval == 0
                                                 : epochEnds);
    NamedScalars evaluated;
    if (due || epochEnds)
      collectAll();
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
           Communicator &communicator, Backend &backend,
           const std::function<void(const std::string &)> &onPartialFile) {
  Trainer trainer(loaded, options, communicator, backend);
  trainer.run();
  trainer.save(onPartialFile);
}

} // namespace fsdp
