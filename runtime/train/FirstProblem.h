#ifndef FSDP_RUNTIME_TRAIN_FIRSTPROBLEM_H
#define FSDP_RUNTIME_TRAIN_FIRSTPROBLEM_H

#include "comm/Communicator.h"

#include <string>

namespace fsdp {

/// What went wrong on the first rank on which something did, with its number:
/// the same text on all ranks. Empty: all are well. Collective.
std::string firstProblem(Communicator &communicator, const std::string &mine);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_FIRSTPROBLEM_H
