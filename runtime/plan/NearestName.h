#ifndef FSDP_PLAN_NEARESTNAME_H
#define FSDP_PLAN_NEARESTNAME_H

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Letters that are inserted, deleted, replaced or swapped with their
/// neighbour to make one text of the other.
unsigned editDistance(std::string_view a, std::string_view b);

/// For the end of an error about a name that is none: "; the nearest is X", of
/// those that there are, or of what they begin with. Empty where more than half
/// of it differs from all.
std::string nearestHint(std::string_view unknown,
                        const std::vector<std::string> &known);

} // namespace fsdp

#endif // FSDP_PLAN_NEARESTNAME_H
