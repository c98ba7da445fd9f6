// The states of a session: in files, and as tensors of the caller's.
#include "session/SessionCalls.h"

#include "state/SaveWeights.h"
#include "train/FirstProblem.h"
#include "train/OutputFiles.h"

namespace fsdp {

/// A stream of random numbers from the first step on is in no checkpoint.
void requireNoStream(const RunOptions &run, const std::string &what) {
  if (run.sequentialRandom)
    throw Refusal(E::NotSupported,
                  what +
                      " is not possible with rng='sequential', one stream of "
                      "random numbers of which a run that resumes has no "
                      "part; load the plan with rng='site'");
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
