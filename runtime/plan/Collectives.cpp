#include "plan/Collectives.h"

#include <iterator>

using namespace fsdp::plan;

namespace {

constexpr CollectiveInfo collectives[] = {
#define FSDP_COLLECTIVE(ENUM, NAME, SENDS, RECEIVES, REDUCES, ROUNDS)          \
  {CollectiveKind::ENUM, NAME,    Pieces::SENDS,                               \
   Pieces::RECEIVES,     REDUCES, ROUNDS},
#include "plan/Collectives.def"
#undef FSDP_COLLECTIVE
};

constexpr bool haveTheSchemasOrder() {
  for (size_t i = 0; i < std::size(collectives); ++i)
    if (collectives[i].kind != static_cast<CollectiveKind>(i))
      return false;
  return std::size(collectives) == static_cast<size_t>(CollectiveKind::MAX) + 1;
}
static_assert(haveTheSchemasOrder(),
              "Collectives.def has a row for each kind of "
              "plan.fbs, in its order");

} // namespace

const CollectiveInfo &fsdp::plan::infoOf(CollectiveKind kind) {
  if (kind > CollectiveKind::MAX)
    throw PlanError(E::PlanConstraint,
                    "there is no collective number " +
                        std::to_string(static_cast<int>(kind)));
  return collectives[static_cast<size_t>(kind)];
}
