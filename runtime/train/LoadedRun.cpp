#include "train/LoadedRun.h"

#include "Error.h"
#include "state/LoadWeights.h"

namespace fsdp {

const plan::PlanT &requirePrograms(const plan::PlanT &plan) {
  if (plan::findProgram(plan, plan::stepProgramName) < 0)
    throw Error(
        E::PlanContents,
        "the plan has no program 'step'; lower the training step again");
  return plan;
}

int64_t seedOf(const plan::PlanT &plan, const RunOptions &options,
               const ResumePoint &from) {
  return options.seed.value_or(from ? from.position().seed : plan.seed);
}

static ExecutorOptions executorOptions(const RunOptions &options, int64_t seed,
                                       LoadedRun::Note note) {
  ExecutorOptions how;
  how.seed = seed;
  how.sequentialRandom = options.sequentialRandom;
  how.poison = options.poison;
  how.graph = options.graph;
  how.note = std::move(note);
  return how;
}

LoadedRun::LoadedRun(const plan::PlanT &plan, const RunOptions &options,
                     ResumePoint &from, Communicator &communicator,
                     Backend &backend, Note note)
    : repeated(plan),
      executor(plan, backend,
               executorOptions(options, seedOf(plan, options, from),
                               std::move(note))) {
  int64_t seed = seedOf(plan, options, from);
  size_t drawn = loadWeights(
      plan, {options.weights, options.weightsFromRank0, seed, bool(from)},
      communicator, executor, repeated.tensors());
  if (from)
    from.load(plan, executor);
  if (drawn)
    notes.push_back(std::to_string(drawn) +
                    " tensors start by the model's own recipes, with seed " +
                    std::to_string(seed));
}

} // namespace fsdp
