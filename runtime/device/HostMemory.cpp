#include "device/HostMemory.h"

#include "Error.h"
#include "device/HugePages.h"

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
  if (total >= bytes)
    block = mapAligned(total);
  if (!block)
    throw Error(E::OutOfMemory,
                "cannot allocate an arena of " + std::to_string(bytes) +
                    " bytes; use more ranks or a smaller batch");
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
