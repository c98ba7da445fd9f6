// One GPU: the library for CUDA's runtime.
#include "Error.h"
#include "device/Device.h"
#include "drivers/cuda/CheckCuda.h"
#include "drivers/cuda/CudaLibrary.h"
#include "drivers/cuda/NcclLibrary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <cuda_runtime_api.h>
#include <vector>

namespace fsdp {

std::string cudaVersionText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

namespace {

/// 0 where there is no driver.
int driverVersion() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return version;
}

int runtimeVersion() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

std::string describeAll() {
  int driver = driverVersion();
  return "CUDA " + cudaVersionText(runtimeVersion()) + ", " + describeNccl() +
         (driver ? ", driver for CUDA " + cudaVersionText(driver)
                 : ", no driver");
}

/// The number of GPUs, at least one.
int countDevices() {
  int count = 0, driver = driverVersion();
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0)
    return count;
  cudaGetLastError();
  if (driver == 0)
    throw Error(E::GpuMissing,
                "the plan is for GPUs, and this machine has no NVIDIA driver; "
                "compile it for device=cpu, or run it where there is one");
  if (status == cudaErrorInsufficientDriver)
    throw Error(E::GpuMissing,
                "the NVIDIA driver is for CUDA " + cudaVersionText(driver) +
                    ", PyTorch needs " + cudaVersionText(runtimeVersion()) +
                    "; update the driver");
  throw Error(E::GpuMissing,
              "the plan is for GPUs, and this machine shows none: " +
                  std::string(cudaGetErrorString(status)) +
                  "; see nvidia-smi and CUDA_VISIBLE_DEVICES");
}

class CudaGraph final : public DeviceGraph {
public:
  /// Makes what was captured ready for the stream.
  CudaGraph(cudaGraph_t captured, cudaStream_t stream) : stream(stream) {
    cudaError_t status = cudaGraphInstantiate(&graph, captured, 0);
    cudaGraphDestroy(captured);
    checkCuda(status, "make a CUDA graph of the step");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(graph); }

  void launch() override {
    checkCuda(cudaGraphLaunch(graph, stream), "launch a CUDA graph");
  }

private:
  cudaGraphExec_t graph = nullptr;
  cudaStream_t stream;
};

class CudaDevice final : public Device {
public:
  CudaDevice(int number, unsigned count) : number(number) {
    checkCuda(cudaSetDevice(number), "use the GPU");
    cudaDeviceProp properties;
    checkCuda(cudaGetDeviceProperties(&properties, number), "ask the GPU");
    description = std::string(properties.name) + ", driver for CUDA " +
                  cudaVersionText(driverVersion());
    uuid.assign(properties.uuid.bytes, sizeof(properties.uuid.bytes));
    longestPitch = properties.memPitch;
    for (unsigned i = 0; i < count; ++i) {
      // They do not wait for the default stream, which nothing uses.
      cudaStream_t &stream = streams.emplace_back();
      checkCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                "make a stream");
    }
  }

  ~CudaDevice() override {
    for (cudaStream_t stream : streams)
      cudaStreamDestroy(stream);
  }

  std::string describe() const override { return description; }

  std::string identity() const override { return uuid; }
  int index() const override { return number; }
  void *stream(unsigned stream) const override { return streams.at(stream); }

  uint64_t freeBytes() const override {
    size_t free = 0, total = 0;
    checkCuda(cudaMemGetInfo(&free, &total), "ask for free memory");
    return free;
  }

  DeviceMemory allocate(uint64_t bytes) override {
    void *block = nullptr;
    if (bytes == 0)
      return {};
    if (cudaError_t status = cudaMalloc(&block, bytes)) {
      cudaGetLastError();
      throw Error(E::GpuMemory,
                  "cannot allocate " + std::to_string(bytes) +
                      " bytes of device memory, of which " +
                      std::to_string(freeBytes()) + " are free (" +
                      cudaGetErrorName(status) +
                      "); use more ranks, a smaller batch, remat=full or "
                      "offload=all");
    }
    DeviceMemory memory = {
        {static_cast<char *>(block), [](char *p) { cudaFree(p); }}, bytes};
    // No stream waits for it, so the host does; not for the whole GPU, which
    // other ranks may share.
    checkCuda(cudaMemsetAsync(block, 0, bytes, streams.at(0)),
              "zero device memory");
    checkCuda(cudaStreamSynchronize(streams.at(0)), "zero device memory");
    return memory;
  }

  DeviceMemory allocatePinned(uint64_t bytes) override {
    void *block = nullptr;
    if (bytes == 0)
      return {};
    if (cudaError_t status =
            cudaHostAlloc(&block, bytes, cudaHostAllocDefault)) {
      cudaGetLastError();
      throw Error(E::GpuMemory, "cannot pin " + std::to_string(bytes) +
                                    " bytes of host memory (" +
                                    cudaGetErrorName(status) +
                                    "); use pin-memory=false");
    }
    std::memset(block, 0, bytes);
    return {{static_cast<char *>(block), [](char *p) { cudaFreeHost(p); }},
            bytes};
  }

  void copyRows(unsigned stream, void *to, uint64_t toStride, const void *from,
                uint64_t fromStride, uint64_t rowBytes,
                uint64_t rows) override {
    cudaStream_t on = streams.at(stream);
    auto *target = static_cast<char *>(to);
    auto *source = static_cast<const char *>(from);
    if (rows <= 1 || (toStride == rowBytes && fromStride == rowBytes))
      checkCuda(
          cudaMemcpyAsync(to, from, rowBytes * rows, cudaMemcpyDefault, on),
          "copy");
    else if (std::max(toStride, fromStride) <= longestPitch)
      checkCuda(cudaMemcpy2DAsync(to, toStride, from, fromStride, rowBytes,
                                  rows, cudaMemcpyDefault, on),
                "copy");
    else // few: each begins gigabytes behind the one before
      for (uint64_t row = 0; row < rows; ++row)
        checkCuda(cudaMemcpyAsync(target + row * toStride,
                                  source + row * fromStride, rowBytes,
                                  cudaMemcpyDefault, on),
                  "copy");
  }

  void fillRows(unsigned stream, void *to, uint64_t stride, unsigned char byte,
                uint64_t rowBytes, uint64_t rows) override {
    cudaStream_t on = streams.at(stream);
    auto *target = static_cast<char *>(to);
    if (rows <= 1 || stride == rowBytes)
      checkCuda(cudaMemsetAsync(to, byte, rowBytes * rows, on), "fill memory");
    else if (stride <= longestPitch)
      checkCuda(cudaMemset2DAsync(to, stride, byte, rowBytes, rows, on),
                "fill memory");
    else
      for (uint64_t row = 0; row < rows; ++row)
        checkCuda(cudaMemsetAsync(target + row * stride, byte, rowBytes, on),
                  "fill memory");
  }

  void record(unsigned stream, unsigned event) override {
    if (event >= events.size())
      events.resize(event + 1);
    if (!events[event])
      events[event] = newEvent();
    recordShared(stream, events[event].get());
  }

  void wait(unsigned stream, unsigned event) override {
    if (event < events.size() && events[event])
      waitShared(stream, events[event].get());
  }

  std::shared_ptr<void> makeEvent() override { return newEvent(); }

  void recordShared(unsigned stream, void *event) override {
    checkCuda(
        cudaEventRecord(static_cast<cudaEvent_t>(event), streams.at(stream)),
        "record an event");
  }

  void waitShared(unsigned stream, void *event) override {
    checkCuda(cudaStreamWaitEvent(streams.at(stream),
                                  static_cast<cudaEvent_t>(event), 0),
              "wait for an event");
  }

  bool isOver(unsigned event) override {
    if (event >= events.size() || !events[event])
      return true;
    cudaError_t status = cudaEventQuery(events[event].get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    checkCuda(status, "ask for an event");
    return true;
  }

  size_t markTime(unsigned stream) override {
    if (marked == timers.size())
      timers.push_back(newEvent(cudaEventDefault));
    recordShared(stream, timers[marked].get());
    return marked++;
  }

  std::vector<int64_t> takeTimes() override {
    std::vector<int64_t> times(marked);
    for (size_t i = 1; i < marked; ++i) {
      float milliseconds = 0;
      checkCuda(
          cudaEventElapsedTime(&milliseconds, timers[0].get(), timers[i].get()),
          "ask when an event was over");
      times[i] = std::llround(milliseconds * 1e6);
    }
    marked = 0;
    return times;
  }

  void drain() override {
    for (cudaStream_t stream : streams)
      checkCuda(cudaStreamSynchronize(stream), "finish what runs on the GPU");
  }

  void beginCapture() override {
    // Ranks that are threads of one process go on with theirs meanwhile.
    checkCuda(
        cudaStreamBeginCapture(streams.at(0), cudaStreamCaptureModeThreadLocal),
        "begin a CUDA graph");
  }

  std::unique_ptr<DeviceGraph> endCapture() override {
    cudaGraph_t captured = nullptr;
    checkCuda(cudaStreamEndCapture(streams.at(0), &captured),
              "make a CUDA graph of the step");
    return std::make_unique<CudaGraph>(captured, streams.at(0));
  }

private:
  using Event = std::shared_ptr<CUevent_st>;

  /// Without a time, which would make recording dear, unless asked for.
  static Event newEvent(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t event = nullptr;
    checkCuda(cudaEventCreateWithFlags(&event, flags), "make an event");
    return {event, cudaEventDestroy};
  }

  int number;
  std::string description, uuid;
  uint64_t longestPitch;
  std::vector<cudaStream_t> streams;
  std::vector<Event> events; // by number; null: not yet recorded
  std::vector<Event> timers; // with a time
  size_t marked = 0;         // of them, since their times were taken
};

Device *open(int index, unsigned streams) {
  int count = countDevices();
  if (index < 0 || index >= count)
    throw Error(E::GpuPerRank,
                "there is no GPU " + std::to_string(index) +
                    ": this process sees " + std::to_string(count) +
                    "; start at most as many ranks on this host");
  return new CudaDevice(index, streams);
}

} // namespace

extern "C" {
extern const CudaLibrary fsdp_cuda_library
    __attribute__((visibility("default")));
const CudaLibrary fsdp_cuda_library = {countDevices, open, describeAll,
                                       openNccl};
}

} // namespace fsdp
