#ifndef FSDP_RUNTIME_COMM_KEPTARENAS_H
#define FSDP_RUNTIME_COMM_KEPTARENAS_H

#include "device/ArenaMemory.h"

#include <memory>
#include <mutex>
#include <vector>

namespace fsdp {

/// Arenas of one rank, for a transport whose own threads read and write them:
/// the memory stays until the rank and all transfers have let go of it, also
/// where the rank has failed and waits for no transfer any more. Used by any
/// thread.
class KeptArenas {
public:
  /// Throws Error when there is no memory.
  std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout);
  /// What keeps the arena or window in which these bytes lie; null: they lie
  /// in none.
  std::shared_ptr<const void> holding(const void *data, size_t bytes) const;

private:
  struct Memory;
  class Handle;

  mutable std::mutex mutex; // of what follows
  std::vector<std::weak_ptr<Memory>> arenas;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_KEPTARENAS_H
