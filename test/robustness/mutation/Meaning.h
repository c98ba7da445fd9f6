// What a plan computes, found without the checker: so that a mutant which the
// checker passes can be told from one that computes the same.
#ifndef FSDP_TEST_MUTATION_MEANING_H
#define FSDP_TEST_MUTATION_MEANING_H

#include "plan/PlanTypes.h"

namespace fsdp::test {

/// A number for all that the plan's outputs and states hold after each program,
/// its commands run in the list's order on symbols: a byte is what made it. Two
/// plans of one number compute the same.
uint64_t meaningOf(const plan::PlanT &plan);

/// Whether every two commands that touch the same bytes, one of them writing,
/// are ordered by streams and events, and every write of a state that a window
/// shows lies behind a collective that lies behind the reads of the window.
bool isOrdered(const plan::PlanT &plan);

} // namespace fsdp::test

#endif // FSDP_TEST_MUTATION_MEANING_H
