#ifndef FSDP_RUNTIME_STATE_LOADCHECKPOINT_H
#define FSDP_RUNTIME_STATE_LOADCHECKPOINT_H

#include "executor/Executor.h"
#include "state/CheckpointFormat.h"

#include <string>

namespace fsdp::checkpoint {

/// Throws Error that lists what the plan has and the checkpoint has not, or the
/// other way round, or in another shape or dtype. Meshes, layouts and units may
/// differ.
void checkFits(const plan::PlanT &plan, const Manifest &manifest,
               const std::string &name);

/// Gives every state that a checkpoint has its value: each rank reads its part
/// of it and no more. Throws Damage.
void loadCheckpoint(const plan::PlanT &plan, const std::string &folder,
                    const Manifest &manifest, int rank, Executor &executor);

} // namespace fsdp::checkpoint

#endif // FSDP_RUNTIME_STATE_LOADCHECKPOINT_H
