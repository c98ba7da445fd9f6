#include "train/Trainer.h"

#include "Error.h"
#include "executor/Executor.h"
#include "state/LoadWeights.h"
#include "state/SaveWeights.h"
#include "train/Evaluation.h"
#include "train/RepeatedInputs.h"
#include "train/RunLength.h"
#include "train/StepLog.h"
#include "train/StepRunner.h"
#include "train/Summary.h"
#include "train/TrainingData.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace fsdp {

namespace {

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

const plan::PlanT &checkPrograms(const plan::PlanT &plan) {
  if (plan::findProgram(plan, "step") < 0)
    throw Error(
        "the plan has no program 'step'; lower the training step again");
  return plan;
}

void checkLoss(const FinishedStep &step, int rank) {
  if (step.outputs.empty() || std::isnan(step.outputs[0]))
    throw Error("the loss became NaN in step " + std::to_string(step.number) +
                " on rank " + std::to_string(rank) +
                "; lower the learning rate, or look for bad data with "
                "--no-shuffle --log-interval 1");
}

/// What each rank has taken so far.
std::vector<uint64_t> gatherPeaks(Communicator &communicator) {
  uint64_t mine = peakResidentBytes();
  std::vector<uint64_t> peaks(communicator.size(), mine);
  if (communicator.size() > 1)
    communicator.allGather(&mine, peaks.data(), sizeof(mine),
                           plan::DType::UInt8);
  return peaks;
}

/// A run of one rank: it reads what it needs, loads, steps and saves, in this
/// order. What costs little comes first, so that it is refused first.
class Trainer {
public:
  Trainer(const plan::LoadedPlan &loaded, const RunOptions &options,
          Communicator &communicator, Backend &backend)
      : loaded(loaded), plan(checkPrograms(*loaded.plan)), options(options),
        communicator(communicator), seed(options.seed.value_or(plan.seed)),
        runsAhead(backend.isHost() ? 0 : 1),
        data(plan, options, communicator, seed),
        length(findLength(plan, options, data.train())), repeated(plan),
        log(plan, options, communicator, data) {
    if (communicator.rank() == 0)
      for (const std::string &file : {options.save, options.summary})
        checkWritable(file);
    load(backend);
  }

  void run();
  void save(const std::function<void(const std::string &)> &onPartialFile);

private:
  void load(Backend &backend);

  const plan::LoadedPlan &loaded;
  const plan::PlanT &plan;
  const RunOptions &options;
  Communicator &communicator;
  const int64_t seed;
  const unsigned runsAhead;
  TrainingData data;
  const RunLength length;
  RepeatedInputs repeated;
  StepLog log;
  std::unique_ptr<Executor> executor;
  std::vector<uint64_t> startPeaks; // by rank
};

void Trainer::load(Backend &backend) {
  ExecutorOptions how;
  how.seed = seed;
  how.sequentialRandom = options.sequentialRandom;
  how.poison = options.poison;
  how.graph = options.graph;
  how.note = [this](const std::string &text) { log.note(text); };
  executor = std::make_unique<Executor>(plan, backend, how);
  size_t drawn =
      loadWeights(plan, {options.weights, options.weightsFromRank0, seed},
                  communicator, *executor, repeated.tensors());
  startPeaks = gatherPeaks(communicator);
  std::vector<std::string> notes = data.notes();
  if (drawn)
    notes.insert(notes.begin(),
                 std::to_string(drawn) +
                     " tensors start by the model's own recipes, with seed " +
                     std::to_string(seed));
  log.open(length, notes);
}

void Trainer::run() {
  StepRunner runner(plan, *executor, repeated, data.train(), length, runsAhead,
                    [this](const FinishedStep &ended) {
                      checkLoss(ended, communicator.rank());
                      log.step(ended);
                    });
  log.begin();
  for (uint64_t i = 1; i <= length.steps; ++i) {
    executor->setGradientNorm(log.wantsGradientNorm(i));
    runner.launch(i);
    bool epochEnds = i % length.stepsPerEpoch == 0 || i == length.steps;
    bool due =
        data.eval() &&
        (options.evalInterval ? i % options.evalInterval == 0 : epochEnds);
    if (due || epochEnds)
      runner.finishAll();
    NamedScalars evaluated;
    if (due) {
      evaluated =
          evaluate(plan, i, *data.eval(), repeated, communicator, *executor);
      log.evaluation(i, evaluated, epochEnds);
    }
    if (epochEnds)
      log.epoch(i, evaluated);
  }
}

void Trainer::save(
    const std::function<void(const std::string &)> &onPartialFile) {
  log.close();
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
