#include "HiddenMemory.h"

#include <map>
#include <sys/mman.h>

namespace fsdp::imitation {

/// The bytes of each block. As many behind it hold what is there.
static std::map<char *, size_t> &blocks() {
  // Never destroyed: PyTorch frees its own after main.
  static auto *blocks = new std::map<char *, size_t>;
  return *blocks;
}

char *allocateHidden(size_t bytes) {
  constexpr size_t page = 1 << 12;
  bytes = (bytes + page - 1) / page * page;
  void *block = mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED || mprotect(block, bytes, PROT_NONE) != 0)
    return nullptr;
  blocks()[static_cast<char *>(block)] = bytes;
  return static_cast<char *>(block);
}

bool freeHidden(void *block) {
  if (!block)
    return true;
  auto known = blocks().find(static_cast<char *>(block));
  if (known == blocks().end())
    return false;
  munmap(block, 2 * known->second);
  blocks().erase(known);
  return true;
}

char *shown(const void *address) {
  auto *p = static_cast<char *>(const_cast<void *>(address));
  auto next = blocks().upper_bound(p);
  if (next == blocks().begin())
    return p;
  auto [block, bytes] = *std::prev(next);
  return p < block + bytes ? p + bytes : p;
}

} // namespace fsdp::imitation
