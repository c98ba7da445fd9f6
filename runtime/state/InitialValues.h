#ifndef FSDP_RUNTIME_STATE_INITIALVALUES_H
#define FSDP_RUNTIME_STATE_INITIALVALUES_H

#include "plan/PlanTypes.h"

namespace fsdp {

/// Computes `count` elements of a state's first value by its recipe, from
/// element `begin` of the whole, row-major tensor on, into `out`, an array of
/// the state's dtype. An element depends on the recipe, the seed and its own
/// position, so any cut of a tensor gives the same values. Steps are evaluated
/// in double and rounded once, at the end. `uniform` and `normal` are PyTorch's
/// distributions, not its numbers.
void computeInitialValues(const plan::StateT &state, int64_t seed,
                          int64_t begin, int64_t count, void *out);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATE_INITIALVALUES_H
