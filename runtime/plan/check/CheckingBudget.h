// What a check of a plan may cost: a few kilobytes can describe work for hours.
#ifndef FSDP_PLAN_CHECK_CHECKINGBUDGET_H
#define FSDP_PLAN_CHECK_CHECKINGBUDGET_H

#include "plan/check/CheckerSupport.h"

namespace fsdp::plan {

/// Counts what takes time or memory and need not be in proportion to the plan's
/// own size. All counts are of one plan; where one is used up, C38 fails.
class CheckingBudget {
public:
  explicit CheckingBudget(const PlanT &plan) : at(plan) {}

  /// Ranges of bytes are looked at: some tens of nanoseconds each.
  void look(uint64_t ranges = 1) {
    spend(looks, ranges, "looks at too many ranges of bytes");
  }
  /// Ranges are kept apart that the plan does not name one by one: at most some
  /// hundreds of bytes each.
  void keep(uint64_t ranges) {
    spend(kept, ranges, "has too many blocks that do not lie alike");
  }

  static constexpr uint64_t mostLooks = uint64_t(1) << 26;
  static constexpr uint64_t mostKept = uint64_t(1) << 21;

private:
  void spend(uint64_t &left, uint64_t count, const char *what) {
    at.require(C38, count <= left, "its check ", what, " (", mostLooks,
               " ranges and ", mostKept, " blocks at most)");
    left -= count;
  }

  Checked at;
  uint64_t looks = mostLooks, kept = mostKept;
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_CHECKINGBUDGET_H
