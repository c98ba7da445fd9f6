#ifndef FSDP_RUNTIME_EXECUTOR_ARENAS_H
#define FSDP_RUNTIME_EXECUTOR_ARENAS_H

#include "comm/Communicator.h"
#include "device/ArenaMemory.h"
#include "plan/PlanTypes.h"

#include <memory>
#include <string>

namespace fsdp {

/// A rank's arenas, as the communicator gives them; but for that of the host,
/// which no collective reaches.
class Arenas {
public:
  /// Collective. `guard`: bytes around the arenas that nothing may write.
  /// Throws Error when the memory cannot be had.
  Arenas(const plan::PlanT &plan, Communicator &communicator, uint64_t guard);
  ~Arenas();
  Arenas(const Arenas &) = delete;
  Arenas &operator=(const Arenas &) = delete;

  /// The first byte of a place. Throws Error, naming `what`, when the place is
  /// not inside its arena.
  char *address(const plan::Place &place, const std::string &what) const;
  /// Bytes from the end of a place to the end of its arena.
  uint64_t room(const plan::Place &place) const;

  bool guardsIntact() const {
    return memory->guardsIntact() && host.guardsIntact();
  }
  /// Mapped gathers find their result in the window: nothing has to move.
  bool windowIsMapped() const { return memory->mapped(); }

private:
  const plan::PlanT &plan;
  HostMemory host;
  std::unique_ptr<ArenaMemory> memory;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_ARENAS_H
