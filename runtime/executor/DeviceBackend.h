#ifndef FSDP_RUNTIME_EXECUTOR_DEVICEBACKEND_H
#define FSDP_RUNTIME_EXECUTOR_DEVICEBACKEND_H

#include "comm/DeviceCommunicator.h"
#include "executor/Backend.h"

namespace fsdp {

/// A rank on a GPU.
class DeviceBackend final : public Backend {
public:
  DeviceBackend(int rank, std::unique_ptr<Device> device,
                std::unique_ptr<Kernels> kernels,
                std::unique_ptr<DeviceCommunicator> communicator);

  int rank() const override { return number; }
  Kernels &kernels() override { return *kernelsOfDevice; }
  bool isHost() const override { return false; }
  /// Throws Error with the bytes needed and free.
  std::unique_ptr<ArenaMemory> allocateArena(const ArenaLayout &) override;
  std::unique_ptr<ArenaMemory> allocateHost(uint64_t bytes, uint64_t guard,
                                            bool pinned) override;
  DeviceMemory allocateScratch(uint64_t bytes) override {
    return device->allocate(bytes);
  }
  void prepare(const Transfer &transfer) override {
    communicator->prepare(transfer);
  }
  std::unique_ptr<Streams> makeStreams(unsigned streams,
                                       unsigned events) override;
  std::string whyNotCaptured() const override {
    return communicator->whyNotCaptured();
  }
  bool agree(bool yes) override { return communicator->agree(yes); }
  void beginCapture() override { device->beginCapture(); }
  std::unique_ptr<DeviceGraph> endCapture() override {
    return device->endCapture();
  }

private:
  int number;
  std::unique_ptr<Device> device;
  std::unique_ptr<Kernels> kernelsOfDevice;
  std::unique_ptr<DeviceCommunicator> communicator;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_DEVICEBACKEND_H
