// The dialect's enumerations in the plan's terms.
#ifndef FSDP_TARGET_PLANENUMS_H
#define FSDP_TARGET_PLANENUMS_H

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "plan/PlanTypes.h"

namespace fsdp {

/// Both sides list the same cases with the same numbers. A last case that one
/// of them lacks does not compile here.
#define FSDP_SAME_CASES(ENUM)                                                  \
  inline plan::ENUM toPlan(ENUM value) {                                       \
    static_assert(getMaxEnumValFor##ENUM() ==                                  \
                  static_cast<unsigned>(plan::ENUM::MAX));                     \
    return static_cast<plan::ENUM>(value);                                     \
  }
FSDP_SAME_CASES(AxisRole)
FSDP_SAME_CASES(InitKind)
FSDP_SAME_CASES(ProgramRegion)
FSDP_SAME_CASES(ReduceOp)
FSDP_SAME_CASES(Role)
#undef FSDP_SAME_CASES

} // namespace fsdp

#endif // FSDP_TARGET_PLANENUMS_H
