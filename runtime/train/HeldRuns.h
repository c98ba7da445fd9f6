#ifndef FSDP_RUNTIME_TRAIN_HELDRUNS_H
#define FSDP_RUNTIME_TRAIN_HELDRUNS_H

#include "plan/PlanTypes.h"

#include <algorithm>
#include <vector>

namespace fsdp {

/// `count` elements that lie one after the other both in a whole tensor, from
/// its element `whole` on, and in a rank's part, from `local` on; both are
/// row-major.
struct Run {
  int64_t whole, local, count;
};

/// What rank `rank` holds of a state, in the order of `local`. Of a member of a
/// flat state, `local` counts in the rank's piece of that one.
std::vector<Run> heldRuns(const plan::PlanT &plan, const plan::StateT &state,
                          int rank);

/// Calls `visit` with the parts of `runs` that are the elements `begin` to
/// `end` of all of them, one after the other.
template <typename Visit>
void forEachRun(const std::vector<Run> &runs, int64_t begin, int64_t end,
                Visit &&visit) {
  int64_t first = 0;
  for (const Run &run : runs) {
    int64_t from = std::max(begin, first) - first;
    int64_t to = std::min(end, first + run.count) - first;
    if (from < to)
      visit(Run{run.whole + from, run.local + from, to - from});
    first += run.count;
  }
}

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_HELDRUNS_H
