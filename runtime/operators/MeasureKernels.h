#ifndef FSDP_RUNTIME_OPERATORS_MEASUREKERNELS_H
#define FSDP_RUNTIME_OPERATORS_MEASUREKERNELS_H

#include "cost/Kernels.h"

#include <map>
#include <string>

namespace fsdp {

/// Seconds that each kernel of a product's family takes on this thread, by its
/// name: the least of many calls, kernels in turns, so that what disturbs the
/// machine for a while disturbs all alike. Where this thread computes alone,
/// its own time: what other processes take from it does not count. A kernel
/// that this processor cannot run is left out. Some tenths of a second, of
/// large products the time of five calls.
std::map<std::string, double> measureKernels(const cost::Product &product);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_MEASUREKERNELS_H
