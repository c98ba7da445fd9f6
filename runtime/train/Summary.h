#ifndef FSDP_RUNTIME_TRAIN_SUMMARY_H
#define FSDP_RUNTIME_TRAIN_SUMMARY_H

#include "executor/Counters.h"
#include "plan/PlanTypes.h"

#include <string>

namespace fsdp {

/// Peak resident memory of this process so far, bytes.
uint64_t peakResidentBytes();

/// Writes what rank 0 did and held as one JSON object; docs/metrics.md defines
/// the fields. Throws Error.
void writeSummary(const plan::PlanT &plan, const std::string &digest,
                  const Counters &counters, uint64_t steps,
                  const std::vector<int64_t> &startPeaks,
                  const std::string &path);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_SUMMARY_H
