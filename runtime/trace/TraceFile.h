// Runs of programs as a file for Perfetto and chrome://tracing.
//
// Google's "Trace Event Format", JSON: a process per rank, a track per stream,
// times in microseconds. docs/tracing.md says what each thing in it means.
#ifndef FSDP_RUNTIME_TRACE_TRACEFILE_H
#define FSDP_RUNTIME_TRACE_TRACEFILE_H

#include "cost/Cluster.h"
#include "plan/PlanTypes.h"
#include "trace/ProgramRun.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::trace {

/// What one rank did, or is predicted to do.
struct Process {
  std::string name; // "rank 0", "predicted"
  std::vector<ProgramRun> runs;
  std::optional<uint32_t> rank = std::nullopt; // whose it is that was measured
};

/// Names with JSON values.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// The whole file. Times of the processes are of one clock; the file's begin at
/// 0 with the earliest run. Commands tell what `cluster` predicts for them. The
/// plan must have been checked.
std::string traceText(const plan::PlanT &plan, const cost::Cluster &cluster,
                      const std::vector<Process> &processes,
                      const Metadata &metadata);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_TRACEFILE_H
