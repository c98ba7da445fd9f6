#ifndef FSDP_RUNTIME_TRAIN_TRAINER_H
#define FSDP_RUNTIME_TRAIN_TRAINER_H

#include "comm/Communicator.h"
#include "executor/Backend.h"
#include "plan/PlanFile.h"
#include "train/RunOptions.h"

#include <functional>
#include <string>

namespace fsdp {

/// Trains one rank to the end of the run: loads, steps, evaluates, logs and
/// saves. The plan runs on `backend`; what hosts say to each other besides goes
/// over `communicator`. `onPartialFile` is told what to remove should the
/// process be killed ("": nothing). Returns the signal that ended the run
/// between two steps, 0 where none did. Throws Error, and PeerFailure when
/// another rank failed.
int train(const plan::LoadedPlan &loaded, const RunOptions &options,
          Communicator &communicator, Backend &backend,
          const std::function<void(const std::string &)> &onPartialFile);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_TRAINER_H
