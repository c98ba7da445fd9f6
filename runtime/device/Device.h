#ifndef FSDP_RUNTIME_DEVICE_DEVICE_H
#define FSDP_RUNTIME_DEVICE_DEVICE_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace fsdp {

/// A block that is freed with it, and its size in bytes.
struct DeviceMemory {
  std::unique_ptr<char, std::function<void(char *)>> block;
  uint64_t bytes = 0;

  char *data() const { return block.get(); }
};

/// What a rank's commands need of a GPU beside its kernels: memory, streams,
/// events and copies. What is launched on a stream runs in the order of its
/// launch, and after the call has returned. A rank uses one device, from one
/// thread. All members throw Error, with CUDA's own words; an error of what was
/// launched comes with a later call.
class Device {
public:
  virtual ~Device() = default;

  /// "NVIDIA H100 80GB HBM3, driver for CUDA 13.0".
  virtual std::string describe() const = 0;
  /// cudaMemGetInfo: bytes that can be allocated.
  virtual uint64_t freeBytes() const = 0;

  /// cudaMalloc: zeros, aligned to 256 bytes. Throws Error with the bytes that
  /// are free.
  virtual DeviceMemory allocate(uint64_t bytes) = 0;
  /// cudaHostAlloc: pages of the host that copies read and write by themselves.
  virtual DeviceMemory allocatePinned(uint64_t bytes) = 0;

  /// cudaMemcpyAsync: between any two of the device's memory, pinned memory and
  /// the host's. Only copies of pinned memory run beside the calling thread.
  virtual void copy(unsigned stream, void *to, const void *from,
                    uint64_t bytes) = 0;
  /// cudaMemsetAsync
  virtual void zero(unsigned stream, void *to, uint64_t bytes) = 0;

  /// cudaEventRecord: marks what is on the stream so far. An event may be
  /// recorded again when what waited for it has run.
  virtual void record(unsigned stream, unsigned event) = 0;
  /// cudaStreamWaitEvent: what follows on the stream runs behind the mark.
  virtual void wait(unsigned stream, unsigned event) = 0;
  /// cudaStreamSynchronize: returns when everything launched is over.
  virtual void drain() = 0;
};

/// The GPU of a rank, by its number among the ranks of this host, with so many
/// streams. CUDA is loaded here and not before.
///
/// Throws Error where this build has no CUDA, the machine no GPU or driver, the
/// driver is too old for PyTorch's CUDA, or there are fewer GPUs than ranks.
std::unique_ptr<Device> openCudaDevice(int localRank, unsigned streams);

/// What of CUDA this build and this machine have: "CUDA 13.0, NCCL 2.28.9,
/// driver for CUDA 13.0"; "no CUDA" where the build has none. Never throws.
std::string describeCuda();

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_DEVICE_H
