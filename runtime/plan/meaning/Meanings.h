// What a plan's programs compute, as digests of terms (docs/checker.md, C34).
#ifndef FSDP_PLAN_MEANING_MEANINGS_H
#define FSDP_PLAN_MEANING_MEANINGS_H

#include "plan/meaning/Terms.h"

namespace fsdp::plan {

/// What was found of an output, a buffer, a gradient or an update.
struct Computed {
  Digest digest;
  std::string unknown; // why nothing can be said of it; empty: all is known
  int command = -1;    // where it was found
  /// Of an update: by what passes scale it, or on what they skip it, which the
  /// sequential step does not have. It is held to, and not compared.
  std::optional<Digest> added;
  /// Of a gradient: over which mesh dimensions, and by what divided, what one
  /// micro-batch adds to the others' is summed.
  uint32_t dims = 0;
  double divisor = 1;
};

/// The digest that a plan has of it.
Digest heldTo(const Computed &computed);

/// By kind, and by the number of the output or of the state.
using Computations = std::map<std::pair<MeaningKind, uint32_t>, Computed>;

/// What each program computes: the sequential step's terms where a plan of
/// several ranks computes what it does. The plan was checked but for this. Time
/// and memory grow with its commands and pieces, times the logarithm of their
/// number, and not with its ranks. `microBatches`: of a step, of which a plan
/// of the captured one has but one.
std::vector<Computations> computationsOf(const PlanT &plan,
                                         uint32_t microBatches);

/// "the gradient of 'w'".
std::string describe(const PlanT &plan, const ProgramT &program,
                     MeaningKind kind, uint32_t index);

/// Makes the meanings of a plan, from those of the sequential step: `said` has
/// them by program. What is not said there, or what no rule brings to a term,
/// is uncovered; so is what another digest comes out for than is said. Of an
/// output on CPUs that is a Finding.
void settleMeanings(PlanT &plan, const std::vector<Computations> &said);

} // namespace fsdp::plan

#endif // FSDP_PLAN_MEANING_MEANINGS_H
