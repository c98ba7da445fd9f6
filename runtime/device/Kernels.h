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
  /// Memory for the calling thread's kernel, its own context, or nothing where
  /// PyTorch's own allocator is to serve it. `bytes` > 0.
  c10::DataPtr (*allocate)(size_t bytes);
  /// Takes back by its address what allocate() gave; false: PyTorch's own
  /// allocator is to take it.
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

  /// For as long as what it returns lives, the calling thread runs these
  /// kernels, on stream 0 of the device at first: behind what the thread has
  /// launched by PyTorch before, and what it launches by PyTorch afterwards
  /// runs behind them. Then the thread's settings are what they were. One
  /// thread at a time.
  virtual std::shared_ptr<void> enter() = 0;

  /// What the calling thread, which has entered, launches from now on runs on
  /// this stream of the device.
  virtual void useStream(unsigned stream) = 0;

  /// While the device captures a graph: a kernel launched with the generator
  /// reads its seed from this device memory, a uint64_t, whenever it runs.
  /// Null: the generator is as before the capture.
  virtual void seedFromMemory(at::Generator &generator, void *seed) = 0;

  /// How often operators that the calling thread launched have waited for the
  /// device so far. One that does holds up the step, and cannot be part of a
  /// graph.
  virtual uint64_t waits() const = 0;

  /// Bytes of the device that PyTorch's own allocator holds: workspaces, and
  /// what operators keep. Of all ranks of the process that share the device.
  virtual uint64_t keptBytes() const = 0;

  /// Gives back what of them nobody uses; waits for the device.
  virtual void releaseCached() = 0;
};

/// For as long as this lives, the calling thread launches on a stream that is
/// not stream 0.
class UseStream {
public:
  UseStream(Kernels &kernels, unsigned stream) : kernels(kernels) {
    kernels.useStream(stream);
  }
  ~UseStream() { kernels.useStream(0); }
  UseStream(const UseStream &) = delete;
  UseStream &operator=(const UseStream &) = delete;

private:
  Kernels &kernels;
};

/// PyTorch's kernels for the GPU of `device`, which outlives them. PyTorch's
/// library for GPUs is loaded here and not before. Handles and workspaces of
/// cuBLAS are made for the calling thread and stream 0. The numbers are those
/// of PyTorch's defaults: no TF32 in matrix products, TF32 in convolutions,
/// reduced-precision sums in those of bf16 and fp16. The first `hooks` serve
/// the whole process.
///
/// Throws Error where this build has no CUDA, or PyTorch cannot use the GPU.
std::unique_ptr<Kernels> openCudaKernels(Device &device,
                                         const MemoryHooks &hooks);

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_KERNELS_H
