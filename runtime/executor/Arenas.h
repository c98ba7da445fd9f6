#ifndef FSDP_RUNTIME_EXECUTOR_ARENAS_H
#define FSDP_RUNTIME_EXECUTOR_ARENAS_H

#include "executor/Backend.h"
#include "plan/PlanTypes.h"

#include <memory>
#include <string>

namespace fsdp {

/// A rank's arenas, as its backend gives them.
class Arenas {
public:
  /// Collective. `guard`: bytes around the arenas that nothing may write.
  /// Throws Error when the memory cannot be had.
  Arenas(const plan::PlanT &plan, Backend &backend, uint64_t guard);
  ~Arenas();
  Arenas(const Arenas &) = delete;
  Arenas &operator=(const Arenas &) = delete;

  /// The first byte of a place. Throws Error, naming `what`, when the place is
  /// not inside its arena.
  char *address(const plan::Place &place, const std::string &what) const;
  /// Bytes from the end of a place to the end of its arena.
  uint64_t room(const plan::Place &place) const;
  /// Of the tensors that lie in a place: the backend's, but for the host arena.
  c10::Device deviceOf(const plan::Place &place) const {
    return place.arena() == plan::hostArena ? c10::Device(c10::kCPU) : device;
  }

  bool guardsIntact() const {
    return memory->guardsIntact() && host->guardsIntact();
  }
  /// Mapped gathers find their result in the window: nothing has to move.
  bool windowIsMapped() const { return memory->mapped(); }

private:
  const plan::PlanT &plan;
  c10::Device device;
  std::unique_ptr<ArenaMemory> host, memory;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_ARENAS_H
