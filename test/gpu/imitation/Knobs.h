// What tests have set, for the functions of the imitation.
#ifndef FSDP_TEST_IMITATION_KNOBS_H
#define FSDP_TEST_IMITATION_KNOBS_H

#include "ImitatedCuda.h"

namespace fsdp::imitation {

/// As UseHost says.
Host host();

/// What this call of a function is to return, see failCall().
cudaError_t injected(const char *function);

/// See observeCaptures().
void tellObserver(cudaStream_t stream);

/// See graphLaunches().
void countGraphLaunch();

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_KNOBS_H
