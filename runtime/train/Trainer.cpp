#include "train/Trainer.h"

#include "Error.h"
#include "executor/Executor.h"
#include "executor/Scalars.h"
#include "train/Console.h"
#include "train/LoadWeights.h"
#include "train/Metrics.h"
#include "train/RunLength.h"
#include "train/SaveWeights.h"
#include "train/Summary.h"
#include "train/TrainingData.h"

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
  void noteStart();
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
  std::unique_ptr<TrainingData> data;
  RunLength length;
  std::optional<MetricsFile> metrics;
  std::optional<Console> console;
  uint64_t plannedBytes = 0;
  std::vector<uint64_t> startPeaks; // by rank

  /// A step whose runs are launched, but whose outputs are not all there.
  struct Step {
    uint64_t number = 0;
    uint64_t collected = 0; // micro-batches
    std::vector<double> outputs;
    double dataWaitMs = 0, launchMs = 0;
    std::optional<double> exposedCommMs;
    uint64_t offloadBytes = 0;
    double squaredGradientNorm = 0; // of the last micro-batch's run
  };
  std::deque<Step> steps;
  unsigned launched = 0; // runs whose outputs are not collected

  Clock::time_point stepEnd; // of the step that ended last
  // Sums of this rank's losses in the epoch so far.
  double epochLoss = 0;
  uint64_t epochSteps = 0;
};

Trainer::Trainer(const plan::LoadedPlan &loaded, const RunOptions &options,
                 Communicator &communicator, Backend &backend)
    : loaded(loaded), plan(*loaded.plan), options(options),
      communicator(communicator), runsAhead(backend.isHost() ? 0 : 1),
      seed(options.seed.value_or(plan.seed)) {
  stepProgram = plan::findProgram(plan, "step");
  accumulateProgram = plan::findProgram(plan, "accumulate");
  evalProgram = plan::findProgram(plan, "eval");
  if (stepProgram < 0)
    throw Error(
        "the plan has no program 'step'; lower the training step again");
  for (const auto &output : plan.programs[stepProgram]->outputs)
    clipsByNorm |= output->name == gradientNormName;
  // What costs little is refused first.
  data = std::make_unique<TrainingData>(plan, options, communicator, seed);
  length = findLength(plan, options, data->train());
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
  for (const std::string &dropped : data->notes())
    console->note("note: " + dropped);
  if (options.graph && options.logGradientNorm && !clipsByNorm &&
      options.logInterval == 1)
    console->note("note: nothing runs as a CUDA graph: --log-grad-norm reads "
                  "gradients on the host in every logged step; log fewer with "
                  "--log-interval N");
}

/// What each rank has taken to have its first values.
void Trainer::noteStart() {
  uint64_t mine = peakResidentBytes();
  startPeaks.assign(communicator.size(), mine);
  if (communicator.size() > 1)
    communicator.allGather(&mine, startPeaks.data(), sizeof(mine),
                           plan::DType::UInt8);
}

/// One small all-reduce, apart from the plan's own collectives.
std::vector<double> Trainer::summed(std::vector<double> values) {
  if (communicator.size() > 1)
    communicator.allReduce(values.data(), values.data(), values.size(),
                           plan::DType::Float64);
  return values;
}

void Trainer::runMicroBatch(uint64_t step, uint64_t microBatch) {
  bool last = microBatch + 1 == plan.micro_batches;
  int program = last ? stepProgram : accumulateProgram;
  auto begin = Clock::now();
  repeated.set(program, *executor);
  if (Batches *train = data->train()) {
    uint64_t ofEpoch = (step - 1) % length.stepsPerEpoch;
    train->set(epochOf(step), ofEpoch * plan.micro_batches + microBatch,
               program, *executor);
  }
  Step &current = steps.back();
  const Counters &counters = executor->counters();
  std::optional<Streams::Times> before = counters.communication;
  uint64_t offloaded = counters.offloadBytes;
  auto ready = Clock::now();
  current.dataWaitMs += milliseconds(ready - begin);
  executor->run(program, step, microBatch);
  current.launchMs += milliseconds(Clock::now() - ready);
  current.offloadBytes += counters.offloadBytes - offloaded;
  current.squaredGradientNorm = executor->squaredGradientNorm();
  if (before && counters.communication)
    current.exposedCommMs =
        current.exposedCommMs.value_or(0) +
        1e3 * (counters.communication->exposed - before->exposed);
}

void Trainer::step(uint64_t step) {
  steps.emplace_back().number = step;
  steps.back().outputs.resize(plan.programs[stepProgram]->outputs.size());
  executor->setGradientNorm(options.logGradientNorm && !clipsByNorm &&
                            logs(step));
  for (uint64_t m = 0; m < plan.micro_batches; ++m) {
    runMicroBatch(step, m);
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
  if (++step.collected == plan.micro_batches)
    finishStep();
}

void Trainer::collectAll() {
  while (launched)
    collect(launched - 1);
}

void Trainer::finishStep() {
  Step &step = steps.front();
  // What is of the whole step, such as a norm, the last one has in addition.
  if (plan.micro_batches > 1)
    for (size_t i = 0; i < plan.programs[accumulateProgram]->outputs.size();
         ++i)
      step.outputs[i] /= plan.micro_batches;
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
  double stepMs = milliseconds(now - stepEnd);
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
  if (data->samplesPerStep)
    report.samplesPerSecond = data->samplesPerStep / (stepMs / 1e3);
  if (data->tokensPerStep)
    report.tokensPerSecond = data->tokensPerStep / (stepMs / 1e3);
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
  Batches &batches = *data->eval();
  std::vector<double> sums(named.size());
  for (int64_t batch = 0; batch < batches.perEpoch(); ++batch) {
    repeated.set(evalProgram, *executor);
    batches.set(0, batch, evalProgram, *executor);
    executor->run(evalProgram, step);
    std::vector<double> values = executor->outputs();
    for (size_t i = 0; i < named.size(); ++i)
      sums[i] += values[i];
  }
  sums = summed(sums);
  NamedScalars result;
  for (size_t i = 0; i < named.size(); ++i)
    result.emplace_back("eval_" + named[i]->name,
                        sums[i] / (batches.perEpoch() * communicator.size()));
  return result;
}

void Trainer::run() {
  stepEnd = Clock::now();
  for (uint64_t i = 1; i <= length.steps; ++i) {
    step(i);
    bool epochEnds = i % length.stepsPerEpoch == 0 || i == length.steps;
    bool due =
        data->eval() &&
        (options.evalInterval ? i % options.evalInterval == 0 : epochEnds);
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
