// The turns of a step in fsdp.json: programs that run one after the other.

#ifndef FSDP_LIB_TARGET_ARCHIVETURNS_H
#define FSDP_LIB_TARGET_ARCHIVETURNS_H

#include "ArchiveMetadata.h"

namespace fsdp {

/// The programs of a step in the order of their turns: "step", and those that
/// follow.
std::vector<std::string> programsOfStep(const ArchiveMetadata &metadata);

/// Every program is "eval", a variant, or of a turn; the turns are a line from
/// "step" on, have names and train parameters of their own, and those of
/// variants are variants of these; else throws ArchiveError.
void checkTurns(const ArchiveMetadata &metadata);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ARCHIVETURNS_H
