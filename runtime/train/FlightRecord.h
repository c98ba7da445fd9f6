#ifndef FSDP_RUNTIME_TRAIN_FLIGHTRECORD_H
#define FSDP_RUNTIME_TRAIN_FLIGHTRECORD_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "plan/PlanFile.h"
#include "train/RunOptions.h"

#include <string>

namespace fsdp {

/// Where a run's records are: what --flight-record says, else beside what it
/// writes otherwise; empty: it writes nothing.
std::string flightFolder(const RunOptions &options);

/// Writes into `folder` how far this rank and the others were when `failure`
/// ended it, as "flight-rankN.json" (docs/troubleshooting.md). `executor` is
/// null before there is one. Returns what to say behind the error: which file;
/// empty: there is no folder to write to.
std::string recordFlight(const PeerFailure &failure, const std::string &folder,
                         const plan::LoadedPlan &loaded,
                         Communicator &communicator, const Executor *executor);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_FLIGHTRECORD_H
