// On what an update is left out, as terms.
#ifndef FSDP_PLAN_MEANING_UPDATESKIPS_H
#define FSDP_PLAN_MEANING_UPDATESKIPS_H

#include "plan/meaning/Terms.h"

namespace fsdp::plan {

struct UpdateSkip {
  /// That the gradients of the step are not finite: then it is skipped besides.
  std::optional<Term> overflow;
  /// The truth value that the sequential step has for it; none: it has none.
  std::optional<Term> captured;
  /// Whether the update is left out where `captured` does not hold.
  bool isNot = false;
  /// What brings ranks, along these mesh dimensions, and the micro-batches of a
  /// step together; `isWhereAll`: it is left out where all of them say so.
  uint32_t dims = 0;
  bool isAccumulated = false;
  bool isWhereAll = true;
};

/// What an update is left out on, of the term of its number; nothing, where
/// that is no truth value's.
std::optional<UpdateSkip> skipOf(const Terms &terms, Term number);

} // namespace fsdp::plan

#endif // FSDP_PLAN_MEANING_UPDATESKIPS_H
