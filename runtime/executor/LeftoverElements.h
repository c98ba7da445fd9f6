// Elements that do not fill a processor's vectors where PyTorch updates whole
// parameters.
#ifndef FSDP_RUNTIME_EXECUTOR_LEFTOVERELEMENTS_H
#define FSDP_RUNTIME_EXECUTOR_LEFTOVERELEMENTS_H

#include "plan/PlanTypes.h"

#include <c10/core/ScalarType.h>

#include <vector>

namespace fsdp {

/// How many elements of a type PyTorch's pointwise kernels for CPUs take at a
/// time. They compute those that are left one by one, and round them otherwise
/// in types of 16 bits: `add` with an alpha once in vectors, else twice.
int64_t elementsAtATime(at::ScalarType dtype);

/// Elements from `begin` to before `end`.
struct ElementRange {
  int64_t begin, end;
};

/// Of the elements of a state that a rank holds: those that are left over,
/// `atATime` taken at a time, of the whole state, or of each one in it where it
/// is flat. Ranges in order, each of less than `atATime` elements.
std::vector<ElementRange> leftoverElements(const plan::PlanT &plan,
                                           size_t state, uint32_t rank,
                                           int64_t atATime);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_LEFTOVERELEMENTS_H
