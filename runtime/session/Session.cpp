#include "session/Session.h"

#include "executor/Scalars.h"
#include "launch/ErrorReport.h"
#include "operators/RunnablePlan.h"
#include "plan/ProgramOutputs.h"
#include "state/SaveWeights.h"
#include "train/FirstProblem.h"
#include "train/FlightRecord.h"
#include "train/OutputFiles.h"
#include "train/StepLog.h"

#include <algorithm>

namespace fsdp {

/// A plan that this process can run.
static plan::LoadedPlan readOwnPlan(const std::string &path) {
  plan::LoadedPlan loaded = readRunnablePlan(path);
  requirePrograms(*loaded.plan);
  return loaded;
}

/// A stream of random numbers from the first step on is in no checkpoint.
static void requireNoStream(const RunOptions &run, const std::string &what) {
  if (run.sequentialRandom)
    throw Refusal(E::NotSupported,
                  what +
                      " is not possible with rng='sequential', one stream of "
                      "random numbers of which a run that resumes has no "
                      "part; load the plan with rng='site'");
}

/// What would part the ranks if it differed.
static std::string agreementOf(const RunOptions &run, const JoinOptions &join) {
  return agreementOf(run) + " comm=" + std::to_string(int(join.transport));
}

static JoinedRanks joinRanks(const plan::LoadedPlan &loaded,
                             const RunOptions &run, const JoinOptions &join) {
  beforeJoining(join, [&] {
    checkFlags(loaded.plan->device,
               {transportFlag("comm=", join.transport),
                {"cuda_graph=True", run.graph, plan::DeviceKind::Cuda}});
  });
  return joinRanks(loaded, join, agreementOf(run, join));
}

/// Nobody waits for a rank that cannot.
static OpenedBackend openBackend(const plan::PlanT &plan,
                                 const JoinedRanks &joined) {
  Communicator &ranks = *joined.connection.communicator;
  try {
    return openBackend(plan, ranks, {}, joined.transports, joined.place);
  } catch (...) {
    ranks.abort(describeCurrentError().message);
    throw;
  }
}

static const plan::ProgramT &programOf(const plan::PlanT &plan,
                                       const char *name) {
  return *plan.programs.at(plan::findProgram(plan, name));
}

Session::Session(const std::string &planPath, RunOptions run,
                 const JoinOptions &join)
    : loaded(beforeJoining(join, [&] { return readOwnPlan(planPath); })),
      options(std::move(run)), joined(joinRanks(loaded, options, join)),
      opened(openBackend(plan(), joined)),
      stepNames(plan::namesOfStep(
          plan(), plan::findProgram(plan(), plan::stepProgramName))),
      stepLosses(plan::lossesOfStep(
          plan(), plan::findProgram(plan(), plan::stepProgramName))),
      stepInputs(plan(), plan::stepProgramName, plan().micro_batches,
                 device()) {
  if (plan::findProgram(plan(), plan::evalProgramName) >= 0)
    evalInputs.emplace(plan(), plan::evalProgramName, 1, device());
}

/// Runs a call of the caller's, of which only one is under way.
template <typename Call> decltype(auto) Session::guarded(Call &&call) {
  std::unique_lock<std::mutex> only(calling, std::try_to_lock);
  if (!only)
    throw Error(E::RunOver,
                "another thread is in a call of this session; wait for it");
  {
    std::lock_guard<std::mutex> lock(ending);
    if (!ended.empty())
      throw Error(E::RunOver,
                  "the session is over: " + ended + "; load the plan again");
  }
  try {
    auto entered = opened.backend->enter();
    return call();
  } catch (const Refusal &) {
    throw;
  } catch (const Disagreement &) {
    throw;
  } catch (const BatchError &error) {
    if (size() > 1)
      fail(error.what());
    throw;
  } catch (const NonFiniteLoss &) {
    throw;
  } catch (PeerFailure &failure) {
    // Where a loop writes anything, it writes checkpoints.
    std::string folder = checkpoints.empty() ? "" : checkpoints.begin()->first;
    failure.addition = recordFlight(failure, folder, loaded, ranks(),
                                    state ? &state->executor : nullptr);
    fail(failure.what() + failure.addition, /*isOthers=*/true);
    throw;
  } catch (...) {
    fail(describeCurrentError().message);
    throw;
  }
}

std::shared_ptr<Session> Session::open(const std::string &planPath,
                                       RunOptions run,
                                       const JoinOptions &join) {
  if (!run.checkpoints.resume.empty())
    requireNoStream(run, "resuming");
  std::shared_ptr<Session> session(new Session(planPath, std::move(run), join));
  session->guarded([&] { session->load(); });
  return session;
}

Session::~Session() { leave("it ended the session"); }

void Session::load() {
  nonFinite.emplace(plan(), options, rank(), "non_finite=");
  if (options.nonFinite == NonFinite::Stop)
    decisions.emplace(ranks(), /*always=*/true);
  from.emplace(options.checkpoints, ranks());
  state.emplace(plan(), options, *from, ranks(), *opened.backend,
                [this](const std::string &note) { news.push_back(note); });
  said = state->notes;
  said.insert(said.end(), from->notes().begin(), from->notes().end());
  if (*from) {
    const checkpoint::RunPosition &then = from->position();
    done = then.step;
    samples = then.epoch
                  ? done * samplesOf(programOf(plan(), plan::stepProgramName))
                  : then.samplesInEpoch;
    said.push_back("resumed after step " + std::to_string(done) + " from " +
                   from->folder());
  }
  nonFinite->begin(*from ? &from->position() : nullptr, state->executor);
  runner.emplace(
      plan(), state->executor, state->repeated,
      [this](uint64_t) { return stepInputs.agree(ranks()); },
      [this](uint64_t, uint64_t microBatch, int program) {
        stepInputs.set(microBatch, program, state->executor);
      },
      /*runsAhead=*/0,
      [this](const FinishedStep &ended) {
        static_cast<FinishedStep &>(lastStep.emplace()) = ended;
      });
  ranks().barrier();
}

/// Nobody waits for a rank in vain.
void Session::fail(const std::string &reason, bool isOthers) {
  {
    std::lock_guard<std::mutex> lock(ending);
    if (!ended.empty())
      return;
    ended = reason;
  }
  if (size() == 1)
    return;
  isOthers ? ranks().leave(reason) : ranks().abort(reason);
}

void Session::leave(const std::string &reason) { fail(reason); }

void Session::close(const std::string &reason) {
  fail(reason);
  std::unique_lock<std::mutex> only(calling, std::try_to_lock);
  if (only)
    checkpoints.clear();
}

void Session::requireProgram(const char *name) const {
  if (plan::findProgram(plan(), name) < 0)
    throw Refusal(E::PlanContents, std::string("the plan has no program '") +
                                       name +
                                       "'; export the step with eval_data");
}

std::vector<double> Session::learningRates() const {
  return givenRates.empty() ? fsdp::learningRates(plan(), done + 1)
                            : givenRates;
}

void Session::setLearningRates(std::vector<double> rates) {
  if (!plan().schedule.empty())
    throw Refusal(
        E::RunState,
        "the plan has a schedule of learning rates for " +
            std::to_string(scheduledSteps(plan())) +
            " steps; export the step without lr_schedule to set them");
  size_t groups = fsdp::learningRates(plan(), 1).size();
  if (rates.size() != groups)
    throw Refusal(E::RunState,
                  std::to_string(rates.size()) +
                      " learning rates are given, and the optimizer has " +
                      std::to_string(groups) + " groups of parameters");
  guarded([&] { state->executor.setLearningRates(rates); });
  givenRates = std::move(rates);
}

/// Says what is wrong with the last step, whose batches are not dropped yet.
void Session::lookAtLoss(const BatchOrigin &origin) {
  lastStep->note = nonFinite->look(*lastStep, std::nullopt);
  std::string doubt;
  if (!lastStep->note.empty() || nonFinite->wish())
    if (auto found = stepInputs.findNaN())
      doubt =
          "batch['" + found->input + "'] has NaN" +
          (found->row < 0 ? "" : " in sample " + std::to_string(found->row)) +
          origin(found->batch, found->row);
  if (!lastStep->note.empty() && !doubt.empty())
    lastStep->note += "; " + doubt;
  if (!decisions)
    return;
  StepDecision wish;
  wish.nonFinite = nonFinite->wish();
  auto stop = decisions->after(done, wish).nonFinite;
  if (!stop)
    return;
  doubt = firstProblem(ranks(), doubt);
  throw NonFiniteLoss(E::NonFinite, describeStep(*stop, done) +
                                        (nonFinite->skipsUpdates()
                                             ? ", and its update was left "
                                               "out"
                                             : ", and its update is "
                                               "applied") +
                                        (doubt.empty() ? "" : "; " + doubt));
}

const SessionStep &Session::step(const std::vector<Batch> &batches,
                                 const BatchOrigin &origin) {
  return guarded([&]() -> const SessionStep & {
    auto begin = std::chrono::steady_clock::now();
    try {
      stepInputs.take(batches);
    } catch (const BatchError &error) {
      throw BatchError(error.what() + origin(error.batch, -1));
    }
    runner->launch(done + 1);
    runner->finishAll();
    ++done;
    samples += samplesOf(*plan().programs[lastStep->program]);
    lastStep->stepMs = std::chrono::duration<double, std::milli>(
                           std::chrono::steady_clock::now() - begin)
                           .count();
    lookAtLoss(origin);
    stepInputs.drop();
    for (const std::string &note : std::exchange(news, {}))
      lastStep->note += (lastStep->note.empty() ? "" : "; ") + note;
    return *lastStep;
  });
}

Evaluated Session::evaluate(const std::vector<Batch> &batches) {
  return guarded([&] {
    requireProgram(plan::evalProgramName);
    evalInputs->take(batches);
    int program = evalInputs->agree(ranks());
    state->repeated.set(program, state->executor);
    evalInputs->set(0, program, state->executor);
    evalInputs->drop();
    state->executor.run(program, std::max<uint64_t>(done, 1));
    Evaluated result;
    const plan::ProgramT &eval = *plan().programs[program];
    auto numbers = plan::outputsOf(eval, true);
    auto tensors = plan::outputsOf(eval, false);
    std::vector<double> values = state->executor.outputs();
    for (size_t i = 0; i < numbers.size(); ++i)
      result.numbers.emplace_back(numbers[i]->name, values[i]);
    if (tensors.empty())
      return result;
    std::vector<at::Tensor> copies = state->executor.tensorOutputs(program);
    for (size_t i = 0; i < tensors.size(); ++i)
      result.tensors.emplace_back(tensors[i]->name, copies[i]);
    return result;
  });
}

void Session::setSteps(uint64_t steps) {
  guarded([&] { done = steps; });
}

std::vector<double> Session::mean(std::vector<double> values) {
  return guarded([&] {
    std::vector<double> sums = sumOverRanks(ranks(), std::move(values));
    for (double &sum : sums)
      sum /= size();
    return sums;
  });
}

void Session::barrier() {
  guarded([&] { ranks().barrier(); });
}

void Session::save(const std::string &path) {
  guarded([&] {
    std::string problem;
    try {
      RunOptions wanted;
      wanted.save = path;
      if (rank() == 0)
        checkOutputs(plan(), wanted);
    } catch (const Error &error) {
      problem = error.what();
    }
    problem = firstProblem(ranks(), problem);
    if (!problem.empty())
      throw Refusal(E::FileUnwritable, problem);
    try {
      saveWeights(plan(), path, ranks(), state->executor,
                  [](const std::string &) {});
    } catch (const Error &error) { // of all ranks
      throw Refusal(error.kind, error.what());
    }
    ranks().barrier();
  });
}

Checkpoints &Session::openCheckpoints(const std::string &folder,
                                      uint64_t keep) {
  OwnCheckpoints &own = checkpoints[folder];
  own.options.folder = folder;
  own.options.keep = keep;
  own.options.synchronous = true;
  own.options.mustSucceed = true;
  if (!own.to)
    own.to = std::make_unique<Checkpoints>(loaded, own.options, *from, ranks(),
                                           [](const std::string &) {});
  return *own.to;
}

/// Samples of a step whose last micro-batch runs a program, all ranks together.
uint64_t Session::samplesOf(const plan::ProgramT &program) const {
  uint64_t samples = 0;
  for (const auto &input : program.inputs)
    if (const auto &shape = program.values[input->value]->shape;
        input->from_data && !shape.empty())
      samples = shape[0] * size() * plan().micro_batches;
  return samples;
}

/// Where fsdp-run would be: the samples so far were those of its first epoch.
checkpoint::RunPosition Session::position() const {
  checkpoint::RunPosition position;
  position.step = done;
  position.seed = seedOf(plan(), options, *from);
  position.samplesInEpoch = samples;
  position.epochLosses = {0};
  if (lastStep)
    for (size_t i = 0; i < stepNames.size(); ++i)
      position.metrics.emplace_back(stepNames[i], lastStep->outputs[i]);
  nonFinite->fill(position);
  return position;
}

std::string Session::checkpoint(const std::string &folder, uint64_t keep) {
  return guarded([&] {
    requireNoStream(options, "a checkpoint");
    try {
      Checkpoints &to = openCheckpoints(folder, keep);
      to.begin(position(), state->executor);
      return to.pathOf(done);
    } catch (const Error &error) { // of all ranks
      throw Refusal(error.kind, error.what());
    }
  });
}

std::vector<StateView> Session::states() {
  return guarded([&] {
    return stateViews(plan(), rank(), state->executor, shared_from_this());
  });
}

NamedTensors Session::whole(bool flatAlone, bool withOptimizer) {
  return guarded([&] {
    return wholeTensors(plan(), ranks(), state->executor, flatAlone,
                        withOptimizer);
  });
}

/// Between the ranks' last read of what they share and their next one.
void Session::put(const NamedTensors &tensors) {
  guarded([&] {
    ranks().barrier();
    putWholeTensors(plan(), rank(), state->executor, tensors);
    ranks().barrier();
  });
}

} // namespace fsdp
