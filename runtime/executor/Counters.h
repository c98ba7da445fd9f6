#ifndef FSDP_RUNTIME_EXECUTOR_COUNTERS_H
#define FSDP_RUNTIME_EXECUTOR_COUNTERS_H

#include "executor/Streams.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace fsdp {

/// What one rank did since the start, counted where it happened.
struct Counters {
  struct Collective {
    uint64_t calls = 0;
    uint64_t bytes = 0; // that this rank contributed or received, per `count`
  };
  /// By program, kind ("all-gather", ...) and region.
  std::map<std::tuple<std::string, std::string, std::string>, Collective>
      collectives;
  std::map<std::string, uint64_t> programRuns;
  /// Bytes moved between collectives' memory and what is packed into it.
  uint64_t communicationBytesCopied = 0;
  /// Bytes copied between the device's memory and the host's.
  uint64_t offloadBytes = 0;
  struct Copies {
    uint64_t count = 0, bytes = 0;
  };
  // In runs after their program's first, in which it is learned what operators
  // allocate:
  /// results that did not land at their planned address, by operator,
  std::map<std::string, Copies> outputsCopied;
  /// and what tensors took outside arenas and scratch, in the rank's thread and
  /// in those that kernels start.
  uint64_t bytesAllocatedInSteps = 0;
  /// The scratch: what kernels allocate beside their outputs.
  uint64_t scratchBytes = 0;
  /// What PyTorch's kernels keep of a device's memory besides: workspaces.
  uint64_t keptBytes = 0;
  /// What collectives took, where that is measured.
  std::optional<Streams::Times> communication = Streams::Times();
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_COUNTERS_H
