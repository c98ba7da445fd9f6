#ifndef FSDP_RUNTIME_DEVICE_HOSTMEMORY_H
#define FSDP_RUNTIME_DEVICE_HOSTMEMORY_H

#include <cstddef>
#include <cstdint>

namespace fsdp {

/// One block of zeroed host memory, 64-byte aligned, with `guard` bytes before
/// and behind it that nothing may write (0 for none; a multiple of 64).
class HostMemory {
public:
  /// Throws Error when the memory cannot be had.
  HostMemory(uint64_t bytes, uint64_t guard);
  ~HostMemory();
  HostMemory(HostMemory &&other) noexcept;
  HostMemory(const HostMemory &) = delete;
  HostMemory &operator=(const HostMemory &) = delete;

  char *data() const { return block + guard; }
  uint64_t size() const { return bytes; }
  bool guardsIntact() const;

private:
  char *block;
  uint64_t bytes, guard;
};

/// What guards and dead integers are filled with.
inline constexpr unsigned char poisonByte = 0xA5;

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_HOSTMEMORY_H
