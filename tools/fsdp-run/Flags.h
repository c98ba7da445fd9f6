#ifndef FSDP_RUN_FLAGS_H
#define FSDP_RUN_FLAGS_H

#include "CommandLine.h"

namespace CLI {
class App;
}

namespace fsdp {

/// What flags are for: the headings of help, which stand in the order in which
/// the first flag of each is added.
namespace heading {
inline constexpr const char *reads = "What a run reads",
                            *writes = "What it writes",
                            *trains = "How it trains", *says = "What it says",
                            *checkpoints = "Checkpoints",
                            *ranks = "Ranks and hosts",
                            *instead = "In place of a run";
} // namespace heading

/// Flags of what a rank does, and of how ranks start and talk. `app` writes
/// into what they are given, which must outlive it.
void addRunFlags(CLI::App &app, RunOptions &run);
void addLaunchFlags(CLI::App &app, LaunchOptions &launch);

/// What no flag by itself is wrong in. Throws Error or CLI::ValidationError.
void checkRunFlags(const RunOptions &run, const std::string &plan);

} // namespace fsdp

#endif // FSDP_RUN_FLAGS_H
