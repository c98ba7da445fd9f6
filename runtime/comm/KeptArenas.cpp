#include "comm/KeptArenas.h"

#include <functional>

namespace fsdp {

struct KeptArenas::Memory {
  explicit Memory(const ArenaLayout &layout)
      : arenaBytes(layout.arenaBytes), windowBytes(layout.windowBytes),
        memory(layout) {}

  bool contains(const char *data, size_t bytes) const {
    return liesIn(data, bytes, memory.arena(), arenaBytes) ||
           liesIn(data, bytes, memory.window(), windowBytes);
  }
  static bool liesIn(const char *data, size_t bytes, const char *begin,
                     uint64_t size) {
    return !std::less<>()(data, begin) &&
           !std::less<>()(begin + size, data + bytes);
  }

  uint64_t arenaBytes, windowBytes;
  PlainArenaMemory memory;
};

/// The rank's own share in it.
class KeptArenas::Handle final : public ArenaMemory {
public:
  explicit Handle(std::shared_ptr<Memory> shared) : shared(std::move(shared)) {}

  char *arena() const override { return shared->memory.arena(); }
  char *window() const override { return shared->memory.window(); }
  bool mapped() const override { return false; }
  bool guardsIntact() const override { return shared->memory.guardsIntact(); }

private:
  std::shared_ptr<Memory> shared;
};

std::unique_ptr<ArenaMemory> KeptArenas::allocate(const ArenaLayout &layout) {
  auto memory = std::make_shared<Memory>(layout);
  std::lock_guard<std::mutex> lock(mutex);
  arenas.push_back(memory);
  return std::make_unique<Handle>(std::move(memory));
}

std::shared_ptr<const void> KeptArenas::holding(const void *data,
                                                size_t bytes) const {
  std::lock_guard<std::mutex> lock(mutex);
  for (const std::weak_ptr<Memory> &arena : arenas)
    if (std::shared_ptr<Memory> memory = arena.lock())
      if (memory->contains(static_cast<const char *>(data), bytes))
        return memory;
  return nullptr;
}

} // namespace fsdp
