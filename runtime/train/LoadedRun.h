#ifndef FSDP_RUNTIME_TRAIN_LOADEDRUN_H
#define FSDP_RUNTIME_TRAIN_LOADEDRUN_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "train/RepeatedInputs.h"
#include "train/ResumePoint.h"
#include "train/RunOptions.h"

#include <functional>
#include <string>
#include <vector>

namespace fsdp {

/// Throws Error where the plan has no training step.
const plan::PlanT &requirePrograms(const plan::PlanT &plan);

/// The seed of a run: the one given, else that of the run it goes on with, else
/// the plan's.
int64_t seedOf(const plan::PlanT &plan, const RunOptions &options,
               const ResumePoint &from);

/// One rank of a run, as its first step finds it: an executor whose states have
/// their values, by recipe, from weights or from a checkpoint. Whoever gives
/// the steps their data stands above it.
class LoadedRun {
public:
  using Note = std::function<void(const std::string &)>;

  /// All but the notes outlive it. Collective. Throws Error.
  LoadedRun(const plan::PlanT &plan, const RunOptions &options,
            ResumePoint &from, Communicator &communicator, Backend &backend,
            Note note);

  RepeatedInputs repeated;
  Executor executor;
  /// What people should know of how it begins.
  std::vector<std::string> notes;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_LOADEDRUN_H
