#ifndef FSDP_PLAN_COLLECTIVES_H
#define FSDP_PLAN_COLLECTIVES_H

#include "plan/PlanTypes.h"

namespace fsdp::plan {

/// What a rank gives to a collective or gets from it: `count` elements, or as
/// many for each rank that takes part.
enum class Pieces { One, PerRank };

/// A row of Collectives.def.
struct CollectiveInfo {
  CollectiveKind kind;
  const char *name;
  Pieces sends, receives;
  bool reduces;
  unsigned rounds;

  /// Pieces that a rank gives and gets among so many ranks.
  uint64_t piecesSent(uint64_t ranks) const {
    return sends == Pieces::PerRank ? ranks : 1;
  }
  uint64_t piecesReceived(uint64_t ranks) const {
    return receives == Pieces::PerRank ? ranks : 1;
  }
};

/// The row of a kind. Throws PlanError for a number that is none, which the
/// checker refuses in plans.
const CollectiveInfo &infoOf(CollectiveKind kind);

} // namespace fsdp::plan

#endif // FSDP_PLAN_COLLECTIVES_H
