#include "device/HostMemory.h"

#include "Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace fsdp {

// Fresh anonymous pages are zero and page aligned, and a size that cannot be
// had fails here instead of at first touch of a huge memset.
HostMemory::HostMemory(uint64_t bytes, uint64_t guard)
    : block(nullptr), bytes(bytes), guard(guard) {
  uint64_t total = bytes + 2 * guard;
  if (total == 0)
    return;
  void *memory = MAP_FAILED;
  if (total >= bytes)
    memory = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("cannot allocate an arena of " + std::to_string(bytes) +
                " bytes; use more ranks or a smaller batch");
  block = static_cast<char *>(memory);
  std::memset(block, poisonByte, guard);
  std::memset(block + guard + bytes, poisonByte, guard);
}

HostMemory::HostMemory(HostMemory &&other) noexcept
    : block(other.block), bytes(other.bytes), guard(other.guard) {
  other.block = nullptr;
}

HostMemory::~HostMemory() {
  if (block)
    munmap(block, bytes + 2 * guard);
}

bool HostMemory::guardsIntact() const {
  auto poisoned = [](char c) {
    return static_cast<unsigned char>(c) == poisonByte;
  };
  return std::all_of(block, block + guard, poisoned) &&
         std::all_of(block + guard + bytes, block + bytes + 2 * guard,
                     poisoned);
}

} // namespace fsdp
