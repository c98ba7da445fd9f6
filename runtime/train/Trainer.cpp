#include "train/Trainer.h"

#include "Error.h"
#include "comm/Gather.h"
#include "comm/RankWatch.h"
#include "cost/KernelTable.h"
#include "state/SaveWeights.h"
#include "train/Checkpoints.h"
#include "train/Evaluation.h"
#include "train/FirstProblem.h"
#include "train/FlightRecord.h"
#include "train/LoadedRun.h"
#include "train/NonFiniteSteps.h"
#include "train/OutputFiles.h"
#include "train/RunLength.h"
#include "train/StepDecisions.h"
#include "train/StepLog.h"
#include "train/StepRunner.h"
#include "train/StepTrace.h"
#include "train/StopRequest.h"
#include "train/Summary.h"
#include "train/TrainingData.h"

namespace fsdp {

namespace {

/// A run of one rank: it reads what it needs, loads, steps and saves, in this
/// order. What costs little comes first, so that it is refused first.
class Trainer {
public:
  Trainer(const plan::LoadedPlan &loaded, const RunOptions &options,
          Communicator &communicator, Backend &backend)
      : loaded(loaded), plan(requirePrograms(*loaded.plan)), options(options),
        communicator(communicator), from(options.checkpoints, communicator),
        seed(seedOf(plan, options, from)),
        nonFinite(plan, options, communicator.rank()),
        runsAhead(backend.isHost() || stopsForSteps() ? 0 : 1),
        data(plan, options, communicator, seed),
        length(findLength(plan, options, data.train(), position())),
        trace(loaded, options, communicator, length,
              [this](const std::string &text) { log.note(text); }),
        log(plan, options, communicator, data, nonFinite) {
    if (!options.evalOutputs.empty())
      ofSamples.emplace(plan, options.evalOutputs, communicator);
    if (communicator.rank() == 0)
      outputs = checkOutputs(plan, options);
    requireSameOnAllRanks(communicator, data.found());
    checkpoints = openCheckpoints();
    load(backend);
  }

  /// Returns the signal that ended it before its last step; 0: none.
  int run();
  const Executor &whatRuns() const { return *executor; }
  void save(const std::function<void(const std::string &)> &onPartialFile);

private:
  void saveTrained(const std::function<void(const std::string &)> &onPartial);
  std::unique_ptr<Checkpoints> openCheckpoints();
  const checkpoint::RunPosition *position() const {
    return from ? &from.position() : nullptr;
  }
  void load(Backend &backend);
  StepRunner::Choose choose();
  StepRunner::Feed feed();
  std::vector<std::string> notesOfResuming() const;
  [[noreturn]] void stopFor(const NonFiniteStep &step, uint64_t number,
                            StepRunner &runner);
  NamedScalars evaluateAfter(uint64_t step, StepRunner &runner);
  bool stopsForSteps() const { return options.nonFinite == NonFinite::Stop; }
  uint64_t failedCheckpoints() const {
    return checkpoints ? checkpoints->failures() : 0;
  }
  StepDecision decide(uint64_t step);
  void checkpointAfter(uint64_t step, const NamedScalars &evaluated,
                       StepRunner &runner);

  const plan::LoadedPlan &loaded;
  const plan::PlanT &plan;
  const RunOptions &options;
  Communicator &communicator;
  ResumePoint from;
  const int64_t seed;
  NonFiniteSteps nonFinite;
  const unsigned runsAhead;
  TrainingData data;
  RunLength length;
  StepTrace trace;
  StepLog log;
  std::optional<SampleOutputs> ofSamples; // of evaluations
  std::vector<WritablePlace> outputs;
  std::optional<LoadedRun> state;
  Executor *executor = nullptr;             // of the state
  std::vector<int64_t> startPeaks;          // by rank
  std::unique_ptr<Checkpoints> checkpoints; // null: none are written
  StepDecisions decisions{communicator, stopsForSteps()};
};

std::unique_ptr<Checkpoints> Trainer::openCheckpoints() {
  const CheckpointOptions &wanted = options.checkpoints;
  if (wanted.folder.empty())
    return nullptr;
  return std::make_unique<Checkpoints>(
      loaded, wanted, from, communicator,
      [this](const std::string &text) { log.note(text); });
}

/// PyTorch takes numbers of 16 bits one by one on x86 without AVX-512.
static std::string noteOfSlowKernels(const plan::PlanT &plan) {
  std::string cpu = cost::thisMachine().cpu;
  unsigned count =
      plan.device == plan::DeviceKind::Cpu && cost::lacksAvx512(cpu)
          ? cost::countNarrowAtenProducts(plan)
          : 0;
  return count == 0 ? ""
                    : std::to_string(count) +
                          " matrix products, convolutions and attentions of 16 "
                          "bits are slow on " +
                          cpu +
                          ", for which PyTorch has no kernels of them; "
                          "compile the plan with kernels=fast (fsdp_mlir.train "
                          "--pipeline, fsdp-opt --fsdp-pipeline), which "
                          "computes them in float32";
}

void Trainer::load(Backend &backend) {
  state.emplace(plan, options, from, communicator, backend,
                [this](const std::string &text) { log.note(text); });
  executor = &state->executor;
  if (from)
    length = findLength(plan, options, data.train(), position());
  if (data.train() && !from.loaderState().empty())
    data.train()->resumeFrom(from.loaderState());
  nonFinite.begin(position(), *executor);
  startPeaks =
      gatherNumbers(communicator, static_cast<int64_t>(peakResidentBytes()));
  std::vector<std::string> notes = data.notes();
  for (const std::string &text : notesOfResuming())
    notes.push_back(text);
  if (std::string text = noteOfSlowKernels(plan); !text.empty())
    notes.push_back(text);
  notes.insert(notes.begin(), state->notes.begin(), state->notes.end());
  log.open(length, position(), notes);
}

std::vector<std::string> Trainer::notesOfResuming() const {
  std::vector<std::string> notes = from.notes();
  if (!from)
    return notes;
  const checkpoint::RunPosition &then = from.position();
  notes.push_back("resumed after step " + std::to_string(then.step) + " from " +
                  from.folder());
  if (then.seed != seed)
    notes.push_back("seed " + std::to_string(seed) + " is not the run's " +
                    std::to_string(then.seed) +
                    ": the order of data and random numbers differ from here");
  int step = plan::findProgram(plan, plan::stepProgramName);
  if (uint64_t each = data.ofStep(step).samples) {
    uint64_t samples = data.samples();
    if (then.samples && then.samples != samples)
      notes.push_back("the data has " + std::to_string(samples) +
                      " samples, and had " + std::to_string(then.samples));
    if (uint64_t rest = then.samplesInEpoch % each)
      notes.push_back(std::to_string(each - rest) +
                      " samples of the epoch are left out, since a step has "
                      "another number of them than before");
  }
  bool isInEpochs = !options.steps && (options.epochs || !plan.steps);
  if (length.ahead && isInEpochs)
    notes.push_back("a step has another number of samples than before, so the "
                    "run's " +
                    std::to_string(length.epochs()) + " epochs are now " +
                    std::to_string(length.steps) + " steps in all");
  if (then.step >= length.steps)
    notes.push_back("the run has " + std::to_string(length.steps) +
                    (length.steps == 1 ? " step" : " steps") +
                    ", so nothing is left to train; give more --steps");
  return notes;
}

/// Ends the run after a step that is not finite. Where its update was skipped,
/// the state is the one before it, and is kept.
void Trainer::stopFor(const NonFiniteStep &step, uint64_t number,
                      StepRunner &runner) {
  std::string text = describeStep(step, number);
  uint64_t failed = failedCheckpoints();
  if (checkpoints && nonFinite.skipsUpdates())
    checkpointAfter(number, {}, runner);
  if (checkpoints)
    checkpoints->finish();
  if (!nonFinite.skipsUpdates())
    text += ", and its update is applied: a plan that is compiled with "
            "non-finite=skip leaves it out" +
            (checkpoints
                 ? "; the newest checkpoint in " + options.checkpoints.folder +
                       " is of a step before it"
                 : std::string());
  else if (checkpoints && failedCheckpoints() == failed)
    text += "; its update was left out, and " + checkpoints->pathOf(number) +
            " has the state: --resume auto goes on with the step behind it";
  if (std::string doubt = firstProblem(communicator, data.doubt());
      !doubt.empty())
    text += "; " + doubt;
  throw Error(E::NonFinite,
              text + "; lower the learning rate, or look for bad data with "
                     "--no-shuffle --log-interval 1");
}

/// Evaluates where it is due.
NamedScalars Trainer::evaluateAfter(uint64_t step, StepRunner &runner) {
  bool epochEnds = length.endsEpoch(step);
  bool due =
      data.eval() &&
      (options.evalInterval ? step % options.evalInterval == 0 : epochEnds);
  if (due || epochEnds)
    runner.finishAll();
  NamedScalars evaluated;
  if (due) {
    evaluated =
        evaluate(plan, step, *data.eval(), state->repeated, communicator,
                 *executor, ofSamples ? &*ofSamples : nullptr);
    log.evaluation(step, evaluated, epochEnds);
  }
  if (epochEnds)
    log.epoch(step, evaluated);
  return evaluated;
}

StepDecision Trainer::decide(uint64_t step) {
  StepDecision wish;
  wish.stopSignal = StopRequest::received();
  wish.checkpoint = checkpoints && checkpoints->isTime();
  wish.nonFinite = nonFinite.wish();
  return decisions.after(step, wish);
}

void Trainer::checkpointAfter(uint64_t step, const NamedScalars &evaluated,
                              StepRunner &runner) {
  runner.finishAll();
  checkpoint::RunPosition position =
      positionAfter(step, plan, length, data.train(), seed);
  log.fill(position, evaluated);
  checkpoints->begin(position, *executor,
                     data.train() ? data.train()->state() : "");
}

/// By the first of each step's batches; null: there are none.
StepRunner::Choose Trainer::choose() {
  if (!data.train())
    return nullptr;
  return [this](uint64_t step) {
    uint64_t batch = length.placeOf(step) * plan.micro_batches;
    return data.train()->programOf(length.epochOf(step), batch, communicator);
  };
}

/// Each step's batches of the data set; null: there is none.
StepRunner::Feed Trainer::feed() {
  if (!data.train())
    return nullptr;
  return [this](uint64_t step, uint64_t microBatch, int program) {
    uint64_t batch = length.placeOf(step) * plan.micro_batches + microBatch;
    data.train()->set(length.epochOf(step), batch, program, *executor);
  };
}

int Trainer::run() {
  StepRunner runner(plan, *executor, state->repeated, choose(), feed(),
                    runsAhead, [this](const FinishedStep &ended) {
                      log.step(ended, failedCheckpoints(), *executor);
                    });
  StopRequest stop;
  StepDecision decision;
  log.begin();
  for (uint64_t i = length.done + 1; i <= length.steps && !decision.stopSignal;
       ++i) {
    log.before(i, *executor);
    trace.before(i, *executor);
    if (RankWatch *watch = communicator.watch())
      watch->progress().step = i;
    runner.launch(i);
    if (trace.after(i, *executor))
      log.begin(); // the next step does not wait for the file
    NamedScalars evaluated = evaluateAfter(i, runner);
    decision = decide(i);
    if (decision.nonFinite)
      stopFor(*decision.nonFinite, i, runner);
    bool ends = decision.stopSignal || i == length.steps;
    if (ends)
      runner.finishAll();
    if (checkpoints && (ends || decision.checkpoint || checkpoints->isDue(i)))
      checkpointAfter(i, evaluated, runner);
    if (decision.stopSignal)
      log.note("stopped after step " + std::to_string(i) + " of " +
               std::to_string(length.steps));
  }
  trace.finish();
  // Without a step, the state is the start's, or another folder's.
  bool isThere =
      from && checkpoints && from.folder() == checkpoints->pathOf(length.done);
  if (checkpoints && length.done >= length.steps && !isThere)
    checkpointAfter(length.done, {}, runner);
  if (checkpoints)
    checkpoints->finish();
  return decision.stopSignal;
}

/// Where the disk is full, what was trained may still be in a checkpoint.
void Trainer::saveTrained(
    const std::function<void(const std::string &)> &onPartialFile) {
  try {
    saveWeights(plan, options.save, communicator, *executor, onPartialFile);
  } catch (const Error &error) {
    if (!checkpoints || failedCheckpoints())
      throw;
    throw Error(error.kind, std::string(error.what()) +
                                "; the weights are in " +
                                checkpoints->pathOf(length.steps));
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
    saveTrained(onPartialFile);
  if (communicator.rank() == 0 && !options.summary.empty())
    writeSummary(plan, executor->counters(),
                 {loaded.digest, length.steps, startPeaks, failedCheckpoints(),
                  log.lostLines(), log.unprintedLines(), log.stepWork()},
                 options.summary);
  communicator.barrier();
}

} // namespace

int train(const plan::LoadedPlan &loaded, const RunOptions &options,
          Communicator &communicator, Backend &backend,
          const std::function<void(const std::string &)> &onPartialFile) {
  std::optional<Trainer> trainer;
  try {
    trainer.emplace(loaded, options, communicator, backend);
    if (int signal = trainer->run())
      return signal;
    trainer->save(onPartialFile);
    return 0;
  } catch (PeerFailure &failure) {
    failure.addition =
        recordFlight(failure, flightFolder(options), loaded, communicator,
                     trainer ? &trainer->whatRuns() : nullptr);
    throw;
  }
}

} // namespace fsdp
