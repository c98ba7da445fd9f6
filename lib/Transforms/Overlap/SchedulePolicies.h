// How early gathers start and how late reductions are waited for.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_SCHEDULEPOLICIES_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_SCHEDULEPOLICIES_H

#include "Overlap/PrefetchLists.h"

namespace fsdp {

struct Choice {
  /// FSDP2's order: by depth, and one reduction in flight.
  bool fsdp2 = false;
  /// Prefetch depths in units, or none: the policy's own choice.
  std::optional<size_t> forward, backward;
  /// How many times longer than predicted collectives may take and still be
  /// hidden; with 0 nothing is.
  double margin = 1;
  /// Whether updates wait for the end, to run beside the last reductions.
  bool holdsUpdates = false;
  /// The units' own lists, which win over depths and costs.
  llvm::ArrayRef<PrefetchList> lists = {};
};

/// Sets the slots of all flights. Ranks may be `skew` seconds apart.
void decide(ProgramSchedule &schedule, const Choice &choice, double skew);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_SCHEDULEPOLICIES_H
