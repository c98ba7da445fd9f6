#ifndef FSDP_RUNTIME_TRAIN_FIRSTPROBLEM_H
#define FSDP_RUNTIME_TRAIN_FIRSTPROBLEM_H

#include "comm/Communicator.h"

#include <string>

namespace fsdp {

/// The problem of the lowest rank that has one, with that rank's number: the
/// same text on all ranks. `mine` is this rank's problem. Empty texts mean that
/// there is none. Collective.
std::string firstProblem(Communicator &communicator, const std::string &mine);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_FIRSTPROBLEM_H
