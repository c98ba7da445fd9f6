// How the sum of the ranks' gradients becomes their mean.
#ifndef FSDP_PLAN_GRADIENTDIVISORS_H
#define FSDP_PLAN_GRADIENTDIVISORS_H

#include "plan/PlanTypes.h"

#include <cmath>

namespace fsdp::plan {

/// What each gradient is divided by before the sum, and the sum after it; 1: no
/// division.
struct GradientDivisors {
  double before = 1, after = 1;
};

/// Together they are `factor`, the number of ranks as a rule. A sum in float16
/// would overflow where its mean does not: about half of the division, a power
/// of two, comes before it, as in FSDP2.
inline GradientDivisors gradientDivisors(DType dtype, double factor) {
  if (dtype != DType::Float16)
    return {1, factor};
  double before = 1;
  // As long as `before` divides the factor, and is below what is left of it.
  while (std::fmod(factor, before) == 0 && factor / before > before)
    before *= 2;
  return {before, factor / before};
}

/// What the sums of a unit's gradients are divided by, in all: its own divisor,
/// else the plan's, as of no unit (-1).
inline double gradientDivisor(const PlanT &plan, int unit) {
  return unit == -1 ? plan.gradient_divisor
                    : plan.units[unit]->gradient_divisor.value_or(
                          plan.gradient_divisor);
}

} // namespace fsdp::plan

#endif // FSDP_PLAN_GRADIENTDIVISORS_H
