#ifndef FSDP_RUNTIME_COMM_SHAREDARENA_H
#define FSDP_RUNTIME_COMM_SHAREDARENA_H

#include "comm/SharedSegment.h"
#include "device/ArenaMemory.h"

#include <vector>

namespace fsdp {

/// An arena that all ranks of a host map. Its window shows their pages where
/// its parts are whole pages; else it lies behind the arena, and gathers fill
/// it.
class SharedArena : public ArenaMemory {
public:
  /// This rank's own. Throws Error when there is no memory.
  SharedArena(const ArenaLayout &layout, int rank, int size);
  ~SharedArena() override;

  SharedSegment::Address address() const { return segments[rank].address(); }
  /// Maps the other ranks' arenas, of which `addresses` tells, and the window.
  /// Throws Error.
  void connect(const std::vector<SharedSegment::Address> &addresses);
  /// All ranks have connected.
  void closeDescriptors();

  char *arena() const override { return segments[rank].data() + arenaAt; }
  char *window() const override { return windowMemory; }
  bool mapped() const override { return windowIsMapped; }
  bool guardsIntact() const override;

  const SharedSegment &segment(int r) const { return segments[r]; }
  bool windowContains(const void *pointer) const {
    const char *p = static_cast<const char *>(pointer);
    return p >= windowMemory && p < windowMemory + windowBytes;
  }

private:
  int rank;
  uint64_t arenaAt, arenaBytes, guard, windowBytes;
  std::vector<WindowPart> parts;
  bool windowIsMapped;
  char *windowMemory = nullptr;
  std::vector<SharedSegment> segments; // by rank
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SHAREDARENA_H
