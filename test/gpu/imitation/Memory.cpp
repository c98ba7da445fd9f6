#include "Memory.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace fsdp::imitation {

char *Memory::allocate(uint64_t bytes, int gpu, uint64_t limit) {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t taken = 0;
  for (auto &[begin, block] : blocks)
    if (block.gpu == gpu && !block.freed)
      taken += block.bytes;
  if (taken > limit || bytes > limit - taken)
    return nullptr;
  uint64_t page = sysconf(_SC_PAGESIZE);
  uint64_t mapped = (bytes + page - 1) / page * page;
  void *begin = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED)
    return nullptr;
  // Small blocks only: large ones would cost memory that nobody uses.
  if (mapped <= uint64_t(1) << 20)
    std::memset(begin, 0xCD, mapped);
  auto *address = static_cast<char *>(begin);
  blocks[address] = {bytes, mapped, gpu, /*freed=*/false};
  return address;
}

bool Memory::release(void *address, bool isPinned) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = blocks.find(static_cast<char *>(address));
  if (found == blocks.end() || found->second.freed ||
      (found->second.gpu == pinned) != isPinned)
    return false;
  found->second.freed = true;
  // Kept from others, but without pages.
  mmap(address, found->second.mapped, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return true;
}

Kind Memory::kindOf(const void *address, uint64_t bytes) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto *begin = static_cast<const char *>(address);
  auto next = blocks.upper_bound(begin);
  // Host memory that CUDA does not know may lie between the blocks only.
  bool reachesNext = next != blocks.end() && begin + bytes > next->first;
  if (next != blocks.begin()) {
    auto &[first, block] = *std::prev(next);
    if (begin < first + block.mapped) {
      if (block.freed || begin + bytes > first + block.bytes)
        return Kind::Bad;
      return block.gpu == pinned ? Kind::Pinned : Kind::Device;
    }
  }
  return reachesNext || !address ? Kind::Bad : Kind::Pageable;
}

Memory::Contents Memory::contents(int gpu) const {
  std::lock_guard<std::mutex> lock(mutex);
  Contents contents;
  for (auto &[begin, block] : blocks)
    if (block.gpu == gpu && !block.freed)
      contents[const_cast<char *>(begin)].assign(begin, begin + block.bytes);
  return contents;
}

uint64_t Memory::used(int gpu) const {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t sum = 0;
  for (auto &[begin, block] : blocks)
    sum += block.gpu == gpu && !block.freed ? block.bytes : 0;
  return sum;
}

uint64_t Memory::used() const {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t sum = 0;
  for (auto &[begin, block] : blocks)
    sum += block.freed ? 0 : block.bytes;
  return sum;
}

Memory &memory() {
  static auto *instance = new Memory(); // blocks may be freed after main
  return *instance;
}

} // namespace fsdp::imitation
