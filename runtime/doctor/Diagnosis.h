// What the facts of all ranks mean: what differs between hosts, what will fail
// and what will be slow, and what to do about it.
#ifndef FSDP_RUNTIME_DOCTOR_DIAGNOSIS_H
#define FSDP_RUNTIME_DOCTOR_DIAGNOSIS_H

#include "doctor/Collectives.h"
#include "doctor/HostFacts.h"

#include <string>
#include <vector>

namespace fsdp::doctor {

/// What a rank found and measured.
struct RankReport {
  int rank = 0;
  HostFacts facts;
  double flops = 0; // measureCompute()
  std::string gpu;  // Device::describe() with its free memory; empty: none
  /// What its clock of the day shows more than rank 0's, and how far that may
  /// be wrong; not known where no transport works.
  double clockSeconds = 0, clockUncertainty = 0;
  std::vector<TransportFigures> transports;
};

/// A run would fail for a problem; a note is about speed, or a surprise.
enum class Severity { Problem, Note };

struct Finding {
  Severity severity;
  std::string text; // the fact; what to do
};

/// The ranks of each host, in order.
std::vector<std::vector<const RankReport *>>
byHost(const std::vector<RankReport> &ranks);

/// Problems first. `ranks`: all, by rank.
std::vector<Finding> diagnose(const std::vector<RankReport> &ranks);

} // namespace fsdp::doctor

#endif // FSDP_RUNTIME_DOCTOR_DIAGNOSIS_H
