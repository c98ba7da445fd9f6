#ifndef FSDP_RUNTIME_DEVICE_DEVICE_H
#define FSDP_RUNTIME_DEVICE_DEVICE_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// A block that is freed with it, and its size in bytes.
struct DeviceMemory {
  std::unique_ptr<char, std::function<void(char *)>> block;
  uint64_t bytes = 0;

  char *data() const { return block.get(); }
};

/// Work of a device's streams, launched again as a whole with one call.
class DeviceGraph {
public:
  virtual ~DeviceGraph() = default;
  /// cudaGraphLaunch, on stream 0.
  virtual void launch() = 0;
};

/// What a rank's commands need of a GPU beside its kernels: memory, streams,
/// events and copies. What is launched on a stream runs in the order of its
/// launch, and after the call has returned. A rank uses one device, from one
/// thread; ranks that are threads may share one GPU, each with a Device of its
/// own. All members throw Error, with CUDA's own words; an error of what was
/// launched comes with a later call.
class Device {
public:
  virtual ~Device() = default;

  /// "NVIDIA H100 80GB HBM3, driver for CUDA 13.0".
  virtual std::string describe() const = 0;
  /// Another for each GPU of a host, the same in all its processes.
  virtual std::string identity() const = 0;
  /// The GPU's number in this process.
  virtual int index() const = 0;
  /// cudaMemGetInfo: bytes that can be allocated.
  virtual uint64_t freeBytes() const = 0;
  /// The cudaStream_t of a stream, for those who launch kernels.
  virtual void *stream(unsigned stream) const = 0;

  /// cudaMalloc: zeros, aligned to 256 bytes; the host waits for stream 0. Of
  /// no bytes: null. Throws Error with the bytes that are free.
  virtual DeviceMemory allocate(uint64_t bytes) = 0;
  /// cudaHostAlloc: pages of the host that copies read and write by themselves;
  /// zeros.
  virtual DeviceMemory allocatePinned(uint64_t bytes) = 0;

  /// cudaMemcpy2DAsync: `rows` rows of `rowBytes`, their beginnings so many
  /// bytes apart, between any two of the device's memory, pinned memory and the
  /// host's. Only copies of pinned memory run beside the calling thread.
  virtual void copyRows(unsigned stream, void *to, uint64_t toStride,
                        const void *from, uint64_t fromStride,
                        uint64_t rowBytes, uint64_t rows) = 0;
  /// cudaMemcpyAsync
  void copy(unsigned stream, void *to, const void *from, uint64_t bytes) {
    copyRows(stream, to, bytes, from, bytes, bytes, 1);
  }
  /// cudaMemset2DAsync: every byte of the rows becomes `byte`.
  virtual void fillRows(unsigned stream, void *to, uint64_t stride,
                        unsigned char byte, uint64_t rowBytes,
                        uint64_t rows) = 0;
  /// cudaMemsetAsync
  void fill(unsigned stream, void *to, unsigned char byte, uint64_t bytes) {
    fillRows(stream, to, bytes, byte, bytes, 1);
  }

  /// cudaEventRecord: marks what is on the stream so far. An event may be
  /// recorded again when what waited for it has run.
  virtual void record(unsigned stream, unsigned event) = 0;
  /// cudaStreamWaitEvent: what follows on the stream runs behind the mark that
  /// the event has now; behind nothing when it was never recorded.
  virtual void wait(unsigned stream, unsigned event) = 0;
  /// cudaEventQuery: what the event marks is over; so it is of an event that
  /// was never recorded.
  virtual bool isOver(unsigned event) = 0;

  /// cudaEventCreate: an event without a number, which Devices of other threads
  /// can wait for, and of other GPUs.
  virtual std::shared_ptr<void> makeEvent() = 0;
  /// As record() and wait(). Only the Device that made an event records it.
  virtual void recordShared(unsigned stream, void *event) = 0;
  virtual void waitShared(unsigned stream, void *event) = 0;

  /// cudaEventRecord: takes the time at which what is on the stream so far is
  /// over. Gives the mark's number: the first one since takeTimes() is 0.
  virtual size_t markTime(unsigned stream) = 0;
  /// cudaEventElapsedTime: nanoseconds from the first mark to each, to half a
  /// microsecond. All are over; their numbers are free again.
  virtual std::vector<int64_t> takeTimes() = 0;

  /// cudaStreamSynchronize: returns when everything launched is over.
  virtual void drain() = 0;

  /// cudaStreamBeginCapture: what is launched from now on by this thread, on
  /// stream 0 and on streams that wait for it, does not run but becomes part of
  /// a graph. Events that stand in the capture belong to it: until they are
  /// recorded again nobody else waits for them or asks whether they are over,
  /// and nothing in it waits for events from before. No memory is allocated or
  /// freed by the thread meanwhile, and copies are of memory that is the
  /// device's or pinned.
  virtual void beginCapture() = 0;
  /// cudaStreamEndCapture, cudaGraphInstantiate. The streams have waited for
  /// each other: stream 0 stands behind all. Throws Error when a stream is not
  /// joined or something was done that cannot be captured; the capture is over.
  virtual std::unique_ptr<DeviceGraph> endCapture() = 0;
};

/// GPUs that this process sees, at least one. CUDA is loaded here and not
/// before.
///
/// Throws Error where this build has no CUDA, the machine no GPU or driver, or
/// the driver is too old for PyTorch's CUDA.
int countCudaDevices();

/// A GPU by its number in this process, with so many streams. Throws Error as
/// countCudaDevices does, or when there is no such GPU.
std::unique_ptr<Device> openCudaDevice(int index, unsigned streams);

/// What of CUDA this build and this machine have: "CUDA 13.0, NCCL 2.28.9,
/// driver for CUDA 13.0"; "no CUDA" where the build has none. Never throws.
std::string describeCuda();

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_DEVICE_H
