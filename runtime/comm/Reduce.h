#ifndef FSDP_RUNTIME_COMM_REDUCE_H
#define FSDP_RUNTIME_COMM_REDUCE_H

#include "plan/PlanTypes.h"

#include <cstddef>
#include <vector>

namespace fsdp {

/// destination[i] = sources[0][i] + sources[1][i] + ..., in that order, rounded
/// to `dtype` after each addition. `destination` may be one of the sources, but
/// not overlap one partly. Throws std::invalid_argument for bool.
void sumInOrder(void *destination, const std::vector<const void *> &sources,
                size_t count, plan::DType dtype);

/// data[i] = data[i] / divisor as PyTorch's div by a Python number, rounded to
/// `dtype`. Throws std::invalid_argument for a dtype that is not floating.
void divide(void *data, size_t count, plan::DType dtype, double divisor);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_REDUCE_H
