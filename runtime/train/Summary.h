#ifndef FSDP_RUNTIME_TRAIN_SUMMARY_H
#define FSDP_RUNTIME_TRAIN_SUMMARY_H

#include "executor/Counters.h"
#include "plan/PlanTypes.h"
#include "train/StepWork.h"

#include <string>
#include <vector>

namespace fsdp {

/// Peak resident memory of this process so far, bytes.
uint64_t peakResidentBytes();

/// What rank 0 knows of a run beside what its executor counted.
struct RunFacts {
  std::string digest; // of the plan
  uint64_t steps = 0;
  std::vector<int64_t> startPeaks; // by rank, bytes
  uint64_t failedCheckpoints = 0, lostMetricsLines = 0, unprintedLines = 0;
  StepWork work;
};

/// Writes what rank 0 did and held as one JSON object; docs/metrics.md defines
/// the fields. Throws Error.
void writeSummary(const plan::PlanT &plan, const Counters &counters,
                  const RunFacts &facts, const std::string &path);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_SUMMARY_H
