// PyTorch's CPU kernels as parts of an imitated GPU's graphs.
//
// While a thread captures, every operator that it calls becomes a node, which
// calls it again on the same memory. So a replay sees what is there then: the
// inputs, numbers and seeds of its own step. The operators also run while they
// are captured, since their results' memory and shape are needed; when the
// capture ends the device's memory is as it was when it began.
#ifndef FSDP_TEST_IMITATION_RECORDEDKERNELS_H
#define FSDP_TEST_IMITATION_RECORDEDKERNELS_H

#include <cstdint>
#include <cuda_runtime_api.h>

namespace fsdp::imitation {

/// From now on, captures record kernels. Does nothing when called again.
void recordKernels();

/// What the calling thread records next is on this stream; at first on that of
/// the capture.
void recordOn(cudaStream_t stream);

/// What the calling thread records next draws its seed from there, when it
/// runs. Null: from no memory.
void recordSeed(const uint64_t *seed);

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_RECORDEDKERNELS_H
