#ifndef FSDP_RUNTIME_COMM_REDUCE_H
#define FSDP_RUNTIME_COMM_REDUCE_H

#include "plan/PlanTypes.h"

#include <cstddef>
#include <vector>

namespace fsdp {

struct Transfer;

/// Every destination's element i = (sources[0][i] + sources[1][i] + ...) /
/// divisor, added in that order and rounded to `dtype` after each operation,
/// the division as PyTorch's by a Python number. A maximum is the largest
/// instead, or the first NaN. One pass over memory. One source and divisor 1: a
/// copy. A destination may be one of the sources, but not overlap one partly.
void combine(const std::vector<const void *> &sources,
             const std::vector<void *> &destinations, size_t count,
             plan::DType dtype, double divisor,
             plan::ReduceOp op = plan::ReduceOp::Sum);

/// Throws Error for what combine() cannot do: to reduce bool,
/// to divide integers or a maximum, to order complex numbers.
void checkReduction(plan::DType dtype, double divisor,
                    plan::ReduceOp op = plan::ReduceOp::Sum);

/// The same of a transfer. One that reduces nothing can always be done.
void checkReduction(const Transfer &transfer);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_REDUCE_H
