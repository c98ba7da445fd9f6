#include "train/StepWork.h"

#include "cost/CommandCost.h"

namespace fsdp {

/// Null where the plan was compiled for a file that is gone.
static std::optional<cost::Cluster> knownCluster(const plan::PlanT &plan) {
  try {
    return cost::clusterOf(plan);
  } catch (const cost::ClusterError &) {
    return std::nullopt;
  }
}

/// Of the ranks, how many run what is for `on`.
static double shareOf(const plan::PlanT &plan, const plan::ShardRange *on) {
  return on ? double(on->end() - on->first()) / plan::numShards(plan) : 1;
}

std::vector<std::pair<int, uint64_t>> programsOfStep(const plan::PlanT &plan,
                                                     int step) {
  std::vector<std::pair<int, uint64_t>> programs;
  for (int turn : plan::turnsFrom(plan, step))
    programs.emplace_back(turn, 1);
  if (int accumulate = plan::findProgram(plan, plan::accumulateProgramName);
      accumulate >= 0)
    programs.emplace_back(accumulate, plan.micro_batches - 1);
  return programs;
}

StepWork workOfStep(const plan::PlanT &plan, int step,
                    std::optional<double> peakFlops) {
  StepWork all;
  std::optional<cost::Cluster> cluster;
  if (peakFlops)
    all.peakFrom = "--peak-flops";
  else if ((cluster = knownCluster(plan)))
    all.peakFrom = "cluster " + cluster->name;
  for (auto [number, runs] : programsOfStep(plan, step)) {
    const plan::ProgramT &program = *plan.programs[number];
    for (const auto &command : program.commands) {
      const auto *call = command->operation.AsAten();
      if (!call || call->view)
        continue;
      cost::Work work = cost::workOf(program, *call);
      double flops = runs * work.flops * shareOf(plan, call->on.get());
      double seconds = 0;
      if (peakFlops)
        seconds = flops / *peakFlops;
      else if (cluster)
        seconds = flops / cluster->flopsPerSecond(work.dtype);
      all.flops += flops;
      all.peakSeconds += seconds;
      if (!call->recomputed) {
        all.modelFlops += flops;
        all.modelPeakSeconds += seconds;
      }
    }
  }
  return all;
}

} // namespace fsdp
