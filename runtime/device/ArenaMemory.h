#ifndef FSDP_RUNTIME_DEVICE_ARENAMEMORY_H
#define FSDP_RUNTIME_DEVICE_ARENAMEMORY_H

#include "device/HostMemory.h"
#include "plan/PlanTypes.h"

#include <cstdint>
#include <vector>

namespace fsdp {

/// A state of which the window shows the pieces of some ranks: `bytes` at
/// `source` in each rank's arena, the i-th rank's at `destination` + i *
/// `bytes` in the window. All are multiples of a page where they are to be
/// mapped.
struct WindowPart {
  uint64_t source, destination, bytes;
  plan::RankGroup ranks;
};

struct ArenaLayout {
  uint64_t arenaBytes = 0, windowBytes = 0;
  std::vector<WindowPart> window;
  /// Bytes around the arena that nothing may write (see HostMemory).
  uint64_t guard = 0;
};

/// One rank's memory: the arena, and the window, through which the states of
/// several ranks can be read one after the other as if they had been gathered.
class ArenaMemory {
public:
  virtual ~ArenaMemory() = default;
  virtual char *arena() const = 0;
  virtual char *window() const = 0;
  /// The window shows the other ranks' memory, where nobody can write it; else
  /// it is memory of its own, which gathers must fill.
  virtual bool mapped() const = 0;
  virtual bool guardsIntact() const = 0;
};

/// Memory that no other rank can see.
class PlainArenaMemory : public ArenaMemory {
public:
  /// Throws Error when the memory cannot be had.
  explicit PlainArenaMemory(const ArenaLayout &layout)
      : own(layout.arenaBytes, layout.guard), gathered(layout.windowBytes, 0) {}
  /// Without a window.
  PlainArenaMemory(uint64_t bytes, uint64_t guard)
      : own(bytes, guard), gathered(0, 0) {}

  char *arena() const override { return own.data(); }
  char *window() const override { return gathered.data(); }
  bool mapped() const override { return false; }
  bool guardsIntact() const override { return own.guardsIntact(); }

private:
  HostMemory own, gathered;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_ARENAMEMORY_H
