#ifndef FSDP_RUNTIME_TRAIN_FLIGHTRECORD_H
#define FSDP_RUNTIME_TRAIN_FLIGHTRECORD_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "plan/PlanFile.h"
#include "train/RunOptions.h"

#include <string>

namespace fsdp {

/// Writes how far this rank and the others were when `failure` ended it, as
/// "flight-rankN.json" (docs/troubleshooting.md). Returns what to say behind
/// the error: which file; empty: there is no place to write to.
std::string recordFlight(const PeerFailure &failure,
                         const plan::LoadedPlan &loaded,
                         const RunOptions &options, Communicator &communicator,
                         const Executor &executor);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_FLIGHTRECORD_H
