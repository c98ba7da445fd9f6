#ifndef FSDP_RUNTIME_STATE_SAVEWEIGHTS_H
#define FSDP_RUNTIME_STATE_SAVEWEIGHTS_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "plan/PlanTypes.h"

#include <functional>
#include <string>

namespace fsdp {

/// Of the tensors that saveWeights() writes.
uint64_t savedBytes(const plan::PlanT &plan);

/// Writes parameters (gathered from all ranks) and rank 0's persistent buffers
/// under their state_dict() names, every alias an entry of its own. Called by
/// all ranks; rank 0 writes. Throws Error, on all of them, where it cannot.
/// `onPartialFile` is told the unfinished file, and "" when it is done.
void saveWeights(const plan::PlanT &plan, const std::string &path,
                 Communicator &communicator, Executor &executor,
                 const std::function<void(const std::string &)> &onPartialFile);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATE_SAVEWEIGHTS_H
