#ifndef FSDP_PLAN_ALIGNUP_H
#define FSDP_PLAN_ALIGNUP_H

#include "plan/PlanTypes.h"

namespace fsdp {

/// The least multiple of `to` that is no smaller: of the alignment of places,
/// where nothing is said.
constexpr uint64_t alignUp(uint64_t bytes, uint64_t to = plan::placeAlignment) {
  return (bytes + to - 1) / to * to;
}

} // namespace fsdp

#endif // FSDP_PLAN_ALIGNUP_H
