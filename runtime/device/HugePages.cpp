#include "device/HugePages.h"

#include "plan/AlignUp.h"

#include <sys/mman.h>
#include <unistd.h>

namespace fsdp {

char *mapAligned(uint64_t bytes, int descriptor) {
  constexpr uint64_t hugePage = 2 << 20;
  constexpr int access = PROT_READ | PROT_WRITE;
  const int kind = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  if (bytes < hugePage) {
    void *memory = mmap(nullptr, bytes, access, kind, descriptor, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
  }
  // More address space than needed, of which the ends are given back.
  uint64_t reserved = bytes + hugePage;
  void *space = MAP_FAILED;
  if (reserved > bytes)
    space = mmap(nullptr, reserved, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED)
    return nullptr;
  auto begin = reinterpret_cast<uintptr_t>(space);
  uintptr_t aligned = alignUp(begin, hugePage);
  void *memory = mmap(reinterpret_cast<void *>(aligned), bytes, access,
                      kind | MAP_FIXED, descriptor, 0);
  if (memory == MAP_FAILED) {
    munmap(space, reserved);
    return nullptr;
  }
  uintptr_t page = sysconf(_SC_PAGESIZE);
  uintptr_t end = alignUp(aligned + bytes, page);
  if (aligned > begin)
    munmap(space, aligned - begin);
  if (begin + reserved > end)
    munmap(reinterpret_cast<void *>(end), begin + reserved - end);
  // Advice: where the kernel has no huge pages, small ones do.
  madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<char *>(memory);
}

} // namespace fsdp
