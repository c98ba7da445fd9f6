#ifndef FSDP_RUNTIME_EXECUTOR_PLACINGALLOCATOR_H
#define FSDP_RUNTIME_EXECUTOR_PLACINGALLOCATOR_H

#include "device/Kernels.h"

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>

namespace fsdp {

/// Where a thread's tensors of one kind of device get their memory from, in
/// place of PyTorch's own allocator.
class AllocationSource {
public:
  explicit AllocationSource(c10::Device device) : device(device) {}

  /// That the memory is of.
  const c10::Device device;
  /// Memory for `bytes` > 0 bytes, 64-byte aligned; the pointer is its own
  /// context.
  virtual c10::DataPtr allocate(size_t bytes) = 0;

protected:
  ~AllocationSource() = default;
};

/// Makes `source` the calling thread's source of its device's memory for as
/// long as this lives. Other threads, those of a kernel included, keep theirs.
class UseSource {
public:
  explicit UseSource(AllocationSource &source);
  ~UseSource();
  UseSource(const UseSource &) = delete;
  UseSource &operator=(const UseSource &) = delete;

private:
  AllocationSource *&slot, *previous;
};

/// Bytes that threads which never had a source have taken so far: those that
/// kernels and libraries start.
uint64_t bytesTakenByHelpers();

/// PyTorch's own allocator, which serves whoever has no source.
c10::Allocator &defaultAllocator(c10::DeviceType type);

/// Says which that is for GPUs. Those who ask in its place use gpuMemoryHooks.
void setDefaultGpuAllocator(c10::Allocator &allocator);
extern const MemoryHooks gpuMemoryHooks;

/// Says that the bytes [begin, end) belong to an executor, which hands them out
/// through a source: who frees a pointer into them by itself, as oneDNN does,
/// frees nothing. Known until forgotten.
void lendMemory(const char *begin, const char *end);
void forgetMemory(const char *begin);

/// A pointer into lent memory that needs no release.
c10::DataPtr lentPointer(char *address, c10::Device device);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_PLACINGALLOCATOR_H
