// PyTorch's CPU kernels in place of a GPU's, on the memory and the streams of
// an imitated one.
//
// They run in the calling thread when they are called: on stream 0 in its
// order, as all that is launched there does; on another stream, while
// useStream() says so, all that is launched on it runs in the caller too. While
// a graph is captured on stream 0 they become part of it: RecordedKernels.h.
//
// PyTorch asks its CPU allocator for memory, which has no hooks: those of
// openCudaKernels are not called, and whoever wants to place tensors does so as
// for CPU ranks. What operators without a generator draw from is not changed.

#ifndef FSDP_TEST_IMITATION_IMITATEDKERNELS_H
#define FSDP_TEST_IMITATION_IMITATEDKERNELS_H

#include "device/Kernels.h"

namespace fsdp::imitation {

/// As openCudaKernels, for a Device of imitation::openDevice.
std::unique_ptr<Kernels> openKernels(Device &device);

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_IMITATEDKERNELS_H
