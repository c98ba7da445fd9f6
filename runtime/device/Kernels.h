#ifndef FSDP_RUNTIME_DEVICE_KERNELS_H
#define FSDP_RUNTIME_DEVICE_KERNELS_H

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <cstdint>
#include <memory>

namespace fsdp {

class Device;

/// What PyTorch's kernels ask for memory, in place of their own allocator. A
/// table, since those for GPUs are in a library of their own.
struct MemoryHooks {
  /// Memory for the calling thread's kernel, or nothing where PyTorch's own
  /// allocator is to serve it. `bytes` > 0.
  c10::DataPtr (*allocate)(size_t bytes);
  /// Takes back by its address what allocate() gave; false: it is PyTorch's.
  bool (*release)(void *pointer);
};

/// PyTorch's kernels for one kind of device: where their tensors lie, where
/// they take memory from, and on which stream they run.
class Kernels {
public:
  virtual ~Kernels() = default;

  /// Of the tensors that they take.
  virtual c10::Device device() const = 0;

  /// PyTorch's own allocator, which serves whom the hooks give nothing.
  virtual c10::Allocator &allocator() const = 0;

  /// A generator of random numbers, seeded.
  virtual at::Generator makeGenerator(uint64_t seed) const = 0;

  /// While it lives, what the calling thread launches runs on this stream of
  /// the device.
  virtual std::shared_ptr<void> useStream(unsigned stream) = 0;

  /// While the device captures a graph: a kernel launched with the generator
  /// reads its seed from this device memory, a uint64_t, whenever it runs.
  /// Null: the generator is as before the capture.
  virtual void seedFromMemory(at::Generator &generator, void *seed) = 0;

  /// Gives back memory that the allocator keeps for later.
  virtual void releaseCached() = 0;
};

/// PyTorch's kernels for the GPU of `device`, which outlives them. PyTorch's
/// library for GPUs is loaded here and not before. Sets the flags of its
/// numbers (TF32, reduced reductions) to PyTorch's defaults, and what they keep
/// (handles and workspaces of cuBLAS) is made for stream 0 before it returns.
/// Throws Error where this build has no CUDA.
std::unique_ptr<Kernels> openCudaKernels(Device &device,
                                         const MemoryHooks &hooks);

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_KERNELS_H
