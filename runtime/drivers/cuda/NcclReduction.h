#ifndef FSDP_RUNTIME_DRIVERS_CUDA_NCCLREDUCTION_H
#define FSDP_RUNTIME_DRIVERS_CUDA_NCCLREDUCTION_H

#include "plan/PlanTypes.h"

#include <array>
#include <nccl.h>

namespace fsdp {

/// What NCCL is to do for a plan's reduction.
///
/// A sum is NCCL's, in the order of its rings and trees, which the number of
/// ranks and their links decide: the same bits in every run on the same
/// machine, and others than a Communicator's. NCCL cannot divide: every rank
/// multiplies its numbers by 1 / divisor first, as FSDP2's ranks do. For a
/// power of two this is a division to the bit (unless a number underflows); for
/// others the factor is rounded to the dtype, and so is each product.
///
/// NCCL's maximum of floating-point numbers drops NaN. That of unsigned
/// integers does not, and the bits of numbers that are not negative have their
/// order, with NaN above all.
struct NcclReduction {
  ncclDataType_t type;
  unsigned numbers; // of `type` in one element: 2 of a complex one
  ncclRedOp_t op;   // ncclSum or ncclMax
};

/// Throws Error where NCCL cannot: to add bool and int16, to
/// order float16, bfloat16 and complex numbers, to divide integers or a
/// maximum.
NcclReduction reductionOf(plan::DType dtype, plan::ReduceOp op, double divisor);

/// 1 / divisor, rounded to a floating-point type, whose bytes stand in front.
std::array<char, 8> factorOf(ncclDataType_t type, double divisor);

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_NCCLREDUCTION_H
