#ifndef FSDP_RUNTIME_DRIVERS_CUDA_CUDAOPERATORS_H
#define FSDP_RUNTIME_DRIVERS_CUDA_CUDAOPERATORS_H

namespace fsdp {

/// Makes PyTorch's dispatcher know what the operators of
/// operators/Operators.def are on GPUs, where they are kernels of this
/// project's own. Does nothing when called again.
void registerCudaOperators();

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_CUDAOPERATORS_H
