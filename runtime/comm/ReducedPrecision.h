#ifndef FSDP_RUNTIME_COMM_REDUCEDPRECISION_H
#define FSDP_RUNTIME_COMM_REDUCEDPRECISION_H

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cstddef>

namespace fsdp {

/// Many numbers at once, with the bits of PyTorch's conversions: to float
/// exactly, and back to the nearest, ties to even.
void widen(const c10::BFloat16 *from, float *to, size_t count);
void widen(const c10::Half *from, float *to, size_t count);
void narrow(const float *from, c10::BFloat16 *to, size_t count);
void narrow(const float *from, c10::Half *to, size_t count);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_REDUCEDPRECISION_H
