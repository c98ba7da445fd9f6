// A GPU that copies and does nothing else: its kernels and graphs are empty,
// and its memory (HiddenMemory.h) is closed to the host. Under the names of
// CUDA's driver, runtime and cuBLAS: enough for what PyTorch's CUDA half does
// on the host before it launches a kernel. A program that links it needs no GPU
// and uses none.

#ifndef FSDP_TEST_IMITATION_EMPTYGPU_H
#define FSDP_TEST_IMITATION_EMPTYGPU_H

#include <cuda_runtime_api.h>
#include <functional>

namespace fsdp::imitation {

/// Called in place of each kernel, with the stream and the addresses of the
/// kernel's arguments.
void onLaunch(std::function<void(cudaStream_t, void **arguments)> see);

/// The workspace that cuBLAS was given last, in bytes.
size_t cublasWorkspaceBytes();

/// Graphs launched so far.
size_t graphLaunches();

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_EMPTYGPU_H
