#include "train/Summary.h"

#include "Error.h"
#include "plan/Files.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace fsdp {

uint64_t peakResidentBytes() {
  // Not getrusage's, which counts what this process was before its exec: as
  // much as whoever started it.
  std::ifstream status("/proc/self/status");
  const std::string field = "VmHWM:";
  for (std::string line; std::getline(status, line);)
    if (line.compare(0, field.size(), field) == 0)
      return std::stoull(line.substr(field.size())) * 1024;
  return 0;
}

/// Bytes of one rank's part, padding included; a flat state's are counted once,
/// not as those of what lies in it.
static uint64_t localBytes(const plan::StateT &state) {
  return state.flat >= 0 ? 0
                         : *plan::numElements(state.local_shape) *
                               plan::dtypeBytes(state.dtype);
}

/// Results that were copied: in all, and where there are some by operator.
static nlohmann::ordered_json copiesOf(const Counters &counters) {
  Counters::Copies all;
  nlohmann::ordered_json operators = nlohmann::json::array();
  for (const auto &[name, copies] : counters.outputsCopied) {
    all.count += copies.count;
    all.bytes += copies.bytes;
    operators.push_back(
        {{"operator", name}, {"count", copies.count}, {"bytes", copies.bytes}});
  }
  nlohmann::ordered_json json = {{"count", all.count}, {"bytes", all.bytes}};
  if (!operators.empty())
    json["operators"] = operators;
  return json;
}

void writeSummary(const plan::PlanT &plan, const Counters &counters,
                  const RunFacts &facts, const std::string &path) {
  nlohmann::ordered_json json;
  json["plan"] = facts.digest;
  json["torch_version"] = plan.torch_version;
  json["world_size"] = plan::numRanks(plan);
  json["steps"] = facts.steps;
  json["flops_per_step"] = facts.work.flops;
  json["model_flops_per_step"] = facts.work.modelFlops;
  if (facts.work.peakSeconds) {
    json["peak_flops_per_s"] = facts.work.peakFlops();
    json["peak_flops_from"] = facts.work.peakFrom;
  }

  // Per run of its program; a plan's runs are all alike.
  json["collectives"] = nlohmann::json::array();
  for (const auto &[key, count] : counters.collectives) {
    const auto &[program, kind, region] = key;
    uint64_t runs = std::max<uint64_t>(1, counters.programRuns.at(program));
    json["collectives"].push_back({{"program", program},
                                   {"kind", kind},
                                   {"region", region},
                                   {"calls_per_step", count.calls / runs},
                                   {"bytes_per_step", count.bytes / runs},
                                   {"calls", count.calls},
                                   {"bytes", count.bytes}});
  }
  json["program_runs"] = counters.programRuns;
  json["outputs_copied"] = copiesOf(counters);
  json["communication_copied_bytes"] = counters.communicationBytesCopied;
  json["offload_bytes"] = counters.offloadBytes;
  json["step_allocated_bytes"] = counters.bytesAllocatedInSteps;
  json["scratch_bytes"] = counters.scratchBytes;
  if (plan.device == plan::DeviceKind::Cuda)
    json["kept_bytes"] = counters.keptBytes;
  uint64_t planned = 0, live = 0, hostLive = 0;
  for (const auto &program : plan.programs) {
    live = std::max(live, program->live_bytes);
    hostLive = std::max(hostLive, program->host_live_bytes);
  }
  json["live_bytes"] = live;
  json["host_live_bytes"] = hostLive;
  for (const auto &arena : plan.arenas) {
    json["arenas"][arena->name] = arena->bytes;
    planned += arena->bytes;
  }
  json["memory_bytes"] = planned;

  uint64_t parameters = 0, optimizer = 0, buffers = 0, constants = 0,
           accumulated = 0;
  for (const auto &state : plan.states)
    switch (state->role) {
    case plan::Role::Parameter:
      parameters += localBytes(*state);
      break;
    case plan::Role::Optimizer:
      optimizer += localBytes(*state);
      break;
    case plan::Role::Buffer:
      buffers += localBytes(*state);
      break;
    case plan::Role::Constant:
      constants += localBytes(*state);
      break;
    case plan::Role::Gradient:
      accumulated += localBytes(*state);
      break;
    }
  uint64_t gradients = 0;
  for (const auto &program : plan.programs) {
    std::set<uint32_t> read; // by several updates, where they are of ranges
    for (const auto &command : program->commands)
      if (const auto *update = command->operation.AsUpdate();
          update &&
          plan.states[update->parameter]->role == plan::Role::Parameter &&
          read.insert(update->gradient).second)
        gradients +=
            *plan::numElements(program->values.at(update->gradient)->shape) *
            plan::dtypeBytes(program->values.at(update->gradient)->dtype);
  }
  json["rank_bytes"] = {{"parameters", parameters},
                        {"gradients", gradients},
                        {"accumulated_gradients", accumulated},
                        {"optimizer", optimizer},
                        {"buffers", buffers},
                        {"constants", constants}};
  json["memory_peak_bytes"] = peakResidentBytes();
  json["start_peak_bytes"] = facts.startPeaks;
  json["failed_checkpoints"] = facts.failedCheckpoints;
  json["lost_metrics_lines"] = facts.lostMetricsLines;
  json["unprinted_lines"] = facts.unprintedLines;
  writeFileAtomically(json.dump(2) + "\n", path);
}

} // namespace fsdp
