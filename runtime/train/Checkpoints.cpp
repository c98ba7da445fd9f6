#include "train/Checkpoints.h"

#include "Error.h"
#include "FlagOrArgument.h"
#include "comm/Gather.h"
#include "plan/FormatText.h"
#include "plan/ProgramOutputs.h"
#include "state/CheckpointReader.h"
#include "train/FirstProblem.h"
#include "train/NonFiniteSteps.h"
#include "train/OutputFiles.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sys/resource.h>
#include <unistd.h>

namespace fsdp {

namespace fs = std::filesystem;

Checkpoints::Checkpoints(const plan::LoadedPlan &loaded,
                         const CheckpointOptions &options,
                         const ResumePoint &from, Communicator &communicator,
                         Note note)
    : plan(*loaded.plan), options(options), communicator(communicator),
      note(std::move(note)), folder(options.folder),
      shards(plan, communicator.rank()), last(Clock::now()) {
  facts.plan = loaded.digest;
  for (const auto &dim : plan.mesh)
    facts.mesh.emplace_back(dim->name, dim->size);
  checkMetric();
  open(from);
  checkSpace();
}

/// --keep-best names a metric that the plan gives.
void Checkpoints::checkMetric() const {
  std::string known;
  auto names =
      plan::namesOfStep(plan, plan::findProgram(plan, plan::stepProgramName));
  if (int eval = plan::findProgram(plan, plan::evalProgramName); eval >= 0)
    for (const plan::OutputT *output :
         plan::outputsOf(*plan.programs[eval], /*numbers=*/true))
      names.push_back("eval_" + output->name);
  for (const std::string &name : names) {
    if (options.keepBest.empty() || name == options.keepBest)
      return;
    appendListed(known, name);
  }
  throw Error(E::FlagAndPlan, "--keep-best " + options.keepBest +
                                  " is no metric of the plan, which has " +
                                  known);
}

Checkpoints::~Checkpoints() {
  cancelled = true;
  if (writer.joinable())
    writer.join();
}

/// Calls `call` on rank 0. An error of it is thrown on all ranks.
template <typename Call>
static void onRank0(Communicator &communicator, Call &&call) {
  std::string problem;
  E kind = E::CheckpointFolder;
  try {
    if (communicator.rank() == 0)
      call();
  } catch (const std::exception &error) {
    problem = error.what();
    kind = kindOf(error);
  }
  problem = textOfRank0(communicator, problem);
  if (!problem.empty())
    throw Error(kind, problem);
}

/// Requires a folder whose checkpoints are this run's own, or that has none.
void Checkpoints::requireOwn(const ResumePoint &from) const {
  std::vector<uint64_t> steps = folder.steps();
  if (steps.empty())
    return;
  std::string has = "folder " + folder.path() +
                    " has checkpoints of a run, the newest of step " +
                    std::to_string(steps.front());
  std::error_code ignored;
  bool goesOn =
      from && std::any_of(steps.begin(), steps.end(), [&](uint64_t step) {
        return fs::equivalent(folder.pathOf(step), from.folder(), ignored);
      });
  if (!goesOn)
    throw Error(
        E::CheckpointFolder,
        has + "; " +
            flagOrArgument("go on with --resume auto",
                           "load the plan with resume=" + folder.path()) +
            ", or name another folder");
  if (from.isNamed() && steps.front() > from.position().step)
    throw Error(E::CheckpointFolder,
                has + ", and this run goes on from step " +
                    std::to_string(from.position().step) +
                    "; name another folder, or move the later ones away");
}

void Checkpoints::open(const ResumePoint &from) {
  onRank0(communicator, [&] {
    folder.lock();
    folder.removePartial();
    requireOwn(from);
  });
  std::string problem;
  if (access((folder.path() + "/lock").c_str(), F_OK) != 0)
    problem = "what rank 0 writes into " + folder.path() +
              " is not seen here; name a folder that all hosts share";
  problem = firstProblem(communicator, problem);
  if (!problem.empty())
    throw Error(E::CheckpointFolder, problem);
}

void Checkpoints::checkSpace() const {
  double bytes = shards.bytes();
  if (communicator.size() > 1)
    communicator.allReduce(&bytes, &bytes, 1, plan::DType::Float64);
  onRank0(communicator, [&] {
    requireRoom("a checkpoint", static_cast<uint64_t>(bytes), folder.path());
  });
}

/// Makes the folder and its lock again where somebody has removed one of them:
/// without the lock another run could write there.
void Checkpoints::hold() {
  if (folder.isLocked())
    return;
  folder.lock();
  note(folder.path() +
       ", or the lock in it, was removed while the run used it; it is made "
       "again");
}

bool Checkpoints::isTime() const {
  return options.seconds > 0 &&
         std::chrono::duration<double>(Clock::now() - last).count() >=
             options.seconds;
}

void Checkpoints::tellFailure(const std::string &why) {
  ++failed;
  std::string text = "the checkpoint of step " +
                     std::to_string(facts.run.step) +
                     " could not be written: " + why;
  if (options.mustSucceed)
    throw Error(E::FileUnwritable, text + "; the ones before it are whole");
  note(text + "; training goes on, and the ones before it are whole");
}

/// Makes the checkpoint's folder, and takes a copy of the state.
void Checkpoints::prepare(Executor &executor) {
  if (isFirst()) {
    hold();
    std::string partial = folder.partialPathOf(facts.run.step);
    fs::remove_all(partial);
    fs::create_directory(partial);
  }
  shards.take(executor);
}

void Checkpoints::begin(const checkpoint::RunPosition &position,
                        Executor &executor, const std::string &loader) {
  finish();
  last = Clock::now();
  facts.run = position;
  facts.loader = loader;
  std::string problem;
  try {
    prepare(executor);
  } catch (const std::exception &error) {
    problem = error.what();
  }
  problem = firstProblem(communicator, problem);
  if (!problem.empty())
    return tellFailure(problem);
  cancelled = false;
  shardsWritten = {};
  commitProblem.clear();
  retainProblem.clear();
  writer = std::thread([this] { write(); });
  if (options.synchronous)
    finish();
}

/// Runs in a thread of its own, with less priority than the kernels.
void Checkpoints::write() {
  setpriority(PRIO_PROCESS, gettid(), 10);
  try {
    writeShards(folder, shards, facts, communicator.rank(), cancelled);
    shardsWritten.set_value("");
  } catch (const checkpoint::Cancelled &) {
    return shardsWritten.set_value("it was given up");
  } catch (const std::exception &error) {
    return shardsWritten.set_value(error.what());
  }
  if (!isFirst())
    return;
  try {
    commitShards(folder, facts, cancelled);
  } catch (const checkpoint::Cancelled &) {
    return;
  } catch (const std::exception &error) {
    commitProblem = error.what();
    return;
  }
  try {
    retain();
  } catch (const std::exception &error) {
    retainProblem = error.what();
  }
}

void Checkpoints::finish() {
  if (!writer.joinable())
    return;
  std::string mine = shardsWritten.get_future().get();
  std::string problem;
  try {
    problem = firstProblem(communicator, mine);
  } catch (...) {
    cancelled = true; // a rank is gone, whose shards will never come
    writer.join();
    throw;
  }
  // Rank 0 waits for shards that do not come.
  cancelled = !problem.empty();
  writer.join();
  if (problem.empty())
    problem = firstProblem(communicator, commitProblem);
  if (!retainProblem.empty())
    note("an old checkpoint stays: " + retainProblem);
  if (problem.empty())
    return;
  if (isFirst()) {
    std::error_code ignored;
    fs::remove_all(folder.partialPathOf(facts.run.step), ignored);
  }
  tellFailure(problem);
}

/// A metric in a checkpoint's manifest; NaN where the manifest lacks it.
static double metricOf(const std::string &folder, const std::string &name) {
  try {
    for (const auto &[metric, value] :
         checkpoint::readCheckpoint(folder).run.metrics)
      if (metric == name)
        return value;
  } catch (const Error &) {
  }
  return std::nan("");
}

/// After the first loss that is not finite: the newest checkpoint whose state
/// is known to be good. The step before that loss may have spoiled the state
/// already.
std::optional<uint64_t>
Checkpoints::lastGood(const std::vector<uint64_t> &steps) const {
  for (const auto &[name, since] : facts.run.metrics)
    if (name == spoiledSinceName)
      for (uint64_t step : steps)
        if (step + 2 <= since)
          return step;
  return std::nullopt;
}

/// The checkpoint with the least value of --keep-best's metric.
std::optional<uint64_t>
Checkpoints::bestByMetric(const std::vector<uint64_t> &steps) const {
  std::optional<uint64_t> best;
  if (options.keepBest.empty())
    return best;
  double least = 0;
  for (uint64_t step : steps) {
    double value = metricOf(folder.pathOf(step), options.keepBest);
    if (!std::isnan(value) && (!best || value < least)) {
      best = step;
      least = value;
    }
  }
  return best;
}

/// Removes the oldest checkpoints, but for the best one and the last good one.
/// Those of later steps than this one are damaged, and do not count.
void Checkpoints::retain() const {
  std::vector<uint64_t> steps = folder.steps();
  steps.erase(
      std::remove_if(steps.begin(), steps.end(),
                     [&](uint64_t step) { return step > facts.run.step; }),
      steps.end());
  if (!options.keep || steps.size() <= options.keep)
    return;
  std::optional<uint64_t> good = lastGood(steps);
  std::optional<uint64_t> best = bestByMetric(steps);
  for (size_t i = options.keep; i < steps.size(); ++i)
    if (steps[i] != best && steps[i] != good)
      folder.remove(steps[i]);
}

} // namespace fsdp
