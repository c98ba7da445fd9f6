#include "trace/TraceOfPlan.h"

#include "cost/CommandCost.h"
#include "trace/JsonText.h"
#include "trace/Predict.h"

#include <cmath>

namespace fsdp::trace {

/// Microseconds, to a nanosecond.
static std::string micros(double seconds) {
  return jsonNumber(std::round(seconds * 1e9) / 1e3);
}

cost::Cluster clusterFor(const plan::PlanT &plan, const std::string &given) {
  if (!given.empty())
    return cost::findCluster(given);
  try {
    return cost::clusterOf(plan);
  } catch (const cost::ClusterError &error) {
    throw cost::ClusterError(
        std::string(error.what()) +
        "; the plan was compiled for it, name another with --trace-cluster");
  }
}

Metadata metadataOf(const plan::LoadedPlan &loaded,
                    const cost::Cluster &cluster) {
  const plan::PlanT &plan = *loaded.plan;
  Metadata facts = {
      {"plan", jsonString(loaded.digest)},
      {"source", jsonString(plan.source)},
      {"torch_version", jsonString(plan.torch_version)},
      {"pipeline", jsonString(plan.pipeline)},
      {"ranks", jsonNumber(plan::numRanks(plan))},
      {"micro_batches", jsonNumber(plan.micro_batches)},
      {"arena_bytes", jsonNumber(plan.arenas.at(plan::deviceArena)->bytes)},
      {"predicted_on", jsonString(cluster.name)}};
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const std::string &name = plan.programs[p]->name;
    Prediction prediction = predict(plan, static_cast<uint32_t>(p), cluster);
    facts.emplace_back(
        "predicted_" + name,
        "{\"us\":" + micros(prediction.stepSeconds) +
            ",\"communication_us\":" + micros(prediction.communicationSeconds) +
            ",\"exposed_us\":" + micros(prediction.exposedSeconds) +
            ",\"live_bytes\":" + jsonNumber(plan.programs[p]->live_bytes) +
            "}");
  }
  return facts;
}

std::string predictedTrace(const plan::LoadedPlan &loaded,
                           const cost::Cluster &cluster, bool allRanks) {
  const plan::PlanT &plan = *loaded.plan;
  std::vector<ProgramRun> step = predictStep(plan, cluster, 0);
  std::string on = "predicted on " + cluster.name;
  std::vector<Process> processes;
  if (!allRanks)
    processes.push_back({on, std::move(step)});
  else
    for (uint64_t rank = 0; rank < plan::numRanks(plan); ++rank)
      processes.push_back({"rank " + std::to_string(rank) + ", " + on, step});
  return traceText(plan, cluster, processes, metadataOf(loaded, cluster));
}

} // namespace fsdp::trace
