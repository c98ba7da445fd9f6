#ifndef FSDP_RUNTIME_TRAIN_OUTPUTFILES_H
#define FSDP_RUNTIME_TRAIN_OUTPUTFILES_H

#include "plan/Files.h"
#include "plan/PlanTypes.h"
#include "train/RunOptions.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// What is written at the end must not fail for what is known at the start.
/// Throws Error where a file cannot be written, or its disk has no room for the
/// trained weights. The places are kept until all is written.
std::vector<WritablePlace> checkOutputs(const plan::PlanT &plan,
                                        const RunOptions &options);

/// Throws Error where the disk of a folder has no room for so many bytes, which
/// `what` needs: "a checkpoint". Where nobody knows, it has.
void requireRoom(const std::string &what, uint64_t bytes,
                 const std::string &folder);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_OUTPUTFILES_H
