#ifndef FSDP_TOOLS_FSDPRUN_RANKS_H
#define FSDP_TOOLS_FSDPRUN_RANKS_H

#include "CommandLine.h"

namespace fsdp {

/// Finds out which of the ways to start ranks is meant, and runs this process's
/// part. Prints errors; returns the exit status.
int runRanks(const CommandLine &line, int argc, char **argv);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_RANKS_H
