#include "executor/DeviceBackend.h"

#include "Error.h"
#include "executor/DeviceStreams.h"

namespace fsdp {

namespace {

/// The arena and behind it the window, which gathers fill.
class DeviceArenaMemory final : public ArenaMemory {
public:
  DeviceArenaMemory(DeviceMemory memory, uint64_t arenaBytes)
      : memory(std::move(memory)), arenaBytes(arenaBytes) {}

  char *arena() const override { return memory.data(); }
  char *window() const override { return memory.data() + arenaBytes; }
  bool mapped() const override { return false; }
  bool guardsIntact() const override { return true; }

private:
  DeviceMemory memory;
  uint64_t arenaBytes;
};

} // namespace

DeviceBackend::DeviceBackend(int rank, std::unique_ptr<Device> device,
                             std::unique_ptr<Kernels> kernels,
                             std::unique_ptr<DeviceCommunicator> communicator)
    : number(rank), device(std::move(device)),
      kernelsOfDevice(std::move(kernels)),
      communicator(std::move(communicator)) {}

std::unique_ptr<ArenaMemory>
DeviceBackend::allocateArena(const ArenaLayout &layout) {
  uint64_t bytes = layout.arenaBytes + layout.windowBytes;
  if (uint64_t free = device->freeBytes(); bytes > free)
    throw Error(
        E::GpuMemory,
        "the plan needs " + std::to_string(bytes) +
            " bytes on every GPU, and " + std::to_string(free) +
            " are free on " + device->describe() +
            "; compile it for more ranks, a smaller batch, remat=full or "
            "offload=all");
  return std::make_unique<DeviceArenaMemory>(communicator->allocate(bytes),
                                             layout.arenaBytes);
}

std::unique_ptr<ArenaMemory>
DeviceBackend::allocateHost(uint64_t bytes, uint64_t guard, bool pinned) {
  if (!pinned)
    return std::make_unique<PlainArenaMemory>(bytes, guard);
  return std::make_unique<DeviceArenaMemory>(device->allocatePinned(bytes),
                                             bytes);
}

std::unique_ptr<Streams> DeviceBackend::makeStreams(unsigned streams,
                                                    unsigned events) {
  return makeDeviceStreams(*device, *communicator, streams, events);
}

} // namespace fsdp
