#ifndef FSDP_RUNTIME_EXECUTOR_PLACINGALLOCATOR_H
#define FSDP_RUNTIME_EXECUTOR_PLACINGALLOCATOR_H

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>

namespace fsdp {

/// Where a thread's tensors get their memory from, in place of PyTorch's CPU
/// allocator.
class AllocationSource {
public:
  /// Memory for `bytes` > 0 bytes, 64-byte aligned; the pointer is its own
  /// context.
  virtual c10::DataPtr allocate(size_t bytes) = 0;

protected:
  ~AllocationSource() = default;
};

/// Makes `source` the calling thread's source of memory for as long as this
/// lives. Other threads, those of a kernel included, keep theirs.
class UseSource {
public:
  explicit UseSource(AllocationSource &source);
  ~UseSource();
  UseSource(const UseSource &) = delete;
  UseSource &operator=(const UseSource &) = delete;

private:
  AllocationSource *previous;
};

/// Bytes that threads which never had a source have taken so far: those that
/// kernels and libraries start.
uint64_t bytesTakenByHelpers();

/// The allocator that serves whoever has no source.
c10::Allocator &defaultAllocator();

/// Says that the bytes [begin, end) belong to an executor, which hands them out
/// through a source: who frees a pointer into them by itself, as oneDNN does,
/// frees nothing. Known until forgotten.
void lendMemory(const char *begin, const char *end);
void forgetMemory(const char *begin);

/// A pointer into lent memory that needs no release.
c10::DataPtr lentPointer(char *address);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_PLACINGALLOCATOR_H
