#ifndef FSDP_RUN_FLAGS_H
#define FSDP_RUN_FLAGS_H

#include "CommandLine.h"

namespace CLI {
class App;
}

namespace fsdp {

/// Flags of what a rank does, and of how ranks start and talk. `app` writes
/// into what they are given, which must outlive it.
void addRunFlags(CLI::App &app, RunOptions &run);
void addLaunchFlags(CLI::App &app, LaunchOptions &launch);

/// What no flag by itself is wrong in. Throws CLI::ValidationError.
void checkRunFlags(const RunOptions &run);

} // namespace fsdp

#endif // FSDP_RUN_FLAGS_H
