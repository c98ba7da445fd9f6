#ifndef FSDP_RUNTIME_EXECUTOR_BACKEND_H
#define FSDP_RUNTIME_EXECUTOR_BACKEND_H

#include "device/ArenaMemory.h"
#include "device/Device.h"
#include "device/Kernels.h"
#include "executor/Streams.h"

#include <memory>

namespace fsdp {

/// What a rank's programs run on: memory, kernels and streams. Of one rank,
/// used by one thread at a time, which has entered.
class Backend {
public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual Kernels &kernels() = 0;
  /// See Kernels::enter().
  std::shared_ptr<void> enter() { return kernels().enter(); }
  /// Whether the host reads and writes the device's memory as its own.
  virtual bool isHost() const = 0;

  /// The rank's memory and the window. Collective; throws Error when there is
  /// no room, and may be called once.
  virtual std::unique_ptr<ArenaMemory> allocateArena(const ArenaLayout &) = 0;
  /// Memory of the host, zeros, between `guard` bytes that nothing may write.
  /// `pinned`: of pages that copies reach without the host's help.
  virtual std::unique_ptr<ArenaMemory>
  allocateHost(uint64_t bytes, uint64_t guard, bool pinned) = 0;
  /// Memory of this rank alone, for what kernels take beside their results.
  virtual DeviceMemory allocateScratch(uint64_t bytes) = 0;

  /// What the first launch of a transfer needs. Collective.
  virtual void prepare(const Transfer &) {}
  /// Streams for programs that use `streams` of them and `events` at most.
  virtual std::unique_ptr<Streams> makeStreams(unsigned streams,
                                               unsigned events) = 0;
  /// Why a run cannot be replayed as a graph; empty: it can, by beginning and
  /// ending a capture around it.
  virtual std::string whyNotCaptured() const = 0;
  /// See DeviceCommunicator::agree.
  virtual bool agree(bool yes) { return yes; }
  virtual void beginCapture() = 0;
  virtual std::unique_ptr<DeviceGraph> endCapture() = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_BACKEND_H
