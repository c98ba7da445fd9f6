#include "launch/Deadline.h"

#include "cost/CommandCost.h"
#include "trace/Predict.h"

#include <algorithm>
#include <cstdio>

namespace fsdp {

std::chrono::milliseconds deadlineOf(const plan::PlanT &plan) {
  constexpr std::chrono::milliseconds least = std::chrono::minutes(10);
  // A year: what was predicted may be anything.
  constexpr std::chrono::milliseconds most = std::chrono::hours(24 * 365);
  constexpr double steps = 100;
  if (plan::findProgram(plan, plan::stepProgramName) < 0)
    return least;
  try {
    double milliseconds = 0;
    for (const trace::ProgramRun &run :
         trace::predictStep(plan, cost::clusterOf(plan), /*begin=*/0))
      milliseconds = std::max(milliseconds, 1e-6 * double(run.end));
    std::chrono::duration<double, std::milli> wanted(
        std::min(steps * milliseconds, double(most.count())));
    return std::max(
        least, std::chrono::duration_cast<std::chrono::milliseconds>(wanted));
  } catch (const cost::ClusterError &) {
    return least; // the file that describes it is elsewhere
  }
}

Patience patienceOf(const plan::PlanT &plan, double seconds) {
  Patience patience = seconds
                          ? std::chrono::milliseconds(int64_t(1e3 * seconds))
                          : deadlineOf(plan);
  patience.note = [](const std::string &text) {
    std::fprintf(stderr, "note: %s\n", text.c_str());
  };
  return patience;
}

} // namespace fsdp
