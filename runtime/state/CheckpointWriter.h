#ifndef FSDP_RUNTIME_STATE_CHECKPOINTWRITER_H
#define FSDP_RUNTIME_STATE_CHECKPOINTWRITER_H

#include "state/CheckpointFolder.h"
#include "state/CheckpointFormat.h"
#include "state/CheckpointShards.h"

#include <atomic>
#include <functional>
#include <string>

namespace fsdp::checkpoint {

/// What is known of a checkpoint before its tensors are written. Each rank has
/// its own epoch's losses in `run`, one number, which rank 0 puts together, and
/// the state of its own loader, which is a file of its own.
struct Facts {
  RunPosition run;
  std::string plan;
  std::vector<std::pair<std::string, uint32_t>> mesh;
  std::string loader; // empty: there is none
};

/// Somebody wants the thread that writes to stop.
struct Cancelled {};

/// Writes a rank's shards into the partial checkpoint of the facts' step, and
/// behind them a manifest of this rank's alone, which says that they are all
/// there. Throws Error, or Cancelled soon after `cancelled` is set.
void writeShards(const Folder &folder, const Shards &shards, const Facts &facts,
                 int rank, const std::atomic<bool> &cancelled);

/// Waits until all ranks have written their shards, puts their manifests
/// together and makes the partial checkpoint a checkpoint. For one rank.
/// Throws Error, or Cancelled.
void commitShards(const Folder &folder, const Facts &facts,
                  const std::atomic<bool> &cancelled);

} // namespace fsdp::checkpoint

#endif // FSDP_RUNTIME_STATE_CHECKPOINTWRITER_H
