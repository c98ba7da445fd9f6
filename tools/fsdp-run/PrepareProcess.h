#ifndef FSDP_TOOLS_FSDPRUN_PREPAREPROCESS_H
#define FSDP_TOOLS_FSDPRUN_PREPAREPROCESS_H

namespace fsdp {

/// Signals, and variables of the environment, for c10d and Gloo: before these
/// are used, and while there is one thread.
void prepareProcess();

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_PREPAREPROCESS_H
