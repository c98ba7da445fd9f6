#ifndef FSDP_RUNTIME_EXECUTOR_HOSTBACKEND_H
#define FSDP_RUNTIME_EXECUTOR_HOSTBACKEND_H

#include "executor/Backend.h"
#include "executor/HostStreams.h"

namespace fsdp {

/// PyTorch's kernels for the CPU. They live as long as the program.
Kernels &hostKernels();

/// Scratch of the host's memory.
DeviceMemory allocateHostScratch(uint64_t bytes);

/// A rank on the CPU, over a communicator that outlives it.
class HostBackend final : public Backend {
public:
  HostBackend(Communicator &communicator,
              HostStreamKind kind = HostStreamKind::Inline)
      : communicator(communicator), kind(kind) {}

  int rank() const override { return communicator.rank(); }
  Kernels &kernels() override { return hostKernels(); }
  bool isHost() const override { return true; }
  std::unique_ptr<ArenaMemory>
  allocateArena(const ArenaLayout &layout) override {
    return communicator.allocate(layout);
  }
  std::unique_ptr<ArenaMemory> allocateHost(uint64_t bytes, uint64_t guard,
                                            bool pinned) override;
  DeviceMemory allocateScratch(uint64_t bytes) override {
    return allocateHostScratch(bytes);
  }
  std::unique_ptr<Streams> makeStreams(unsigned streams,
                                       unsigned events) override;
  std::string whyNotCaptured() const override;
  void beginCapture() override;
  std::unique_ptr<DeviceGraph> endCapture() override;

private:
  Communicator &communicator;
  HostStreamKind kind;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_HOSTBACKEND_H
