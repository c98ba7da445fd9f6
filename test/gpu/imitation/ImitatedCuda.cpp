// CUDA's functions, those that this project calls.
#include "ImitatedCuda.h"

#include "Knobs.h"
#include "Memory.h"
#include "Streams.h"

#include <cstring>
#include <utility>

using namespace fsdp::imitation;

namespace fsdp::imitation {

namespace {

thread_local cudaError_t lastError = cudaSuccess;
thread_local int current = 0;
thread_local bool firstStream = true; // since cudaSetDevice

cudaError_t told(cudaError_t error) {
  if (error != cudaSuccess)
    lastError = error;
  return error;
}

/// What every function does before and behind its own.
template <typename Body> cudaError_t call(const char *function, Body body) {
  if (cudaError_t error = injected(function))
    return told(error);
  if (cudaError_t error = failure())
    return told(error);
  return told(body());
}

/// Also when the GPU is lost.
template <typename Body> cudaError_t release(Body body) {
  cudaError_t error = body();
  return told(failure() ? failure() : error);
}

template <typename T> const char *at(T *base, size_t bytes) {
  return static_cast<const char *>(base) + bytes;
}

/// Rows of one block.
struct Rows {
  const void *base;
  size_t stride, bytes, count;

  size_t extent() const { return (count - 1) * stride + bytes; }
  Kind kind() const { return memory().kindOf(base, extent()); }
};

cudaError_t checkPitch(const Rows &rows) {
  return rows.bytes > rows.stride || rows.stride > host().pitch
             ? cudaErrorInvalidPitchValue
             : cudaSuccess;
}

cudaError_t copyRows(Rows to, Rows from, cudaStream_t stream) {
  if (to.bytes == 0 || to.count == 0)
    return cudaSuccess;
  if (to.kind() == Kind::Bad || from.kind() == Kind::Bad)
    return cudaErrorInvalidValue;
  bool pageable = to.kind() == Kind::Pageable || from.kind() == Kind::Pageable;
  if (pageable)
    if (cudaError_t error = refuseInCapture(stream))
      return error;
  cudaError_t error = launch(stream, [to, from] {
    // What was freed since the launch.
    if (to.kind() == Kind::Bad || from.kind() == Kind::Bad)
      throw cudaErrorIllegalAddress;
    for (size_t row = 0; row < to.count; ++row)
      std::memcpy(const_cast<char *>(at(to.base, row * to.stride)),
                  at(from.base, row * from.stride), to.bytes);
  });
  return error || !pageable ? error : finish(stream);
}

cudaError_t fillRows(Rows to, int value, cudaStream_t stream) {
  if (to.bytes == 0 || to.count == 0)
    return cudaSuccess;
  if (to.kind() == Kind::Bad || to.kind() == Kind::Pageable)
    return cudaErrorInvalidValue;
  return launch(stream, [to, value] {
    if (to.kind() == Kind::Bad)
      throw cudaErrorIllegalAddress;
    for (size_t row = 0; row < to.count; ++row)
      std::memset(const_cast<char *>(at(to.base, row * to.stride)), value,
                  to.bytes);
  });
}

cudaError_t allocate(void **block, size_t bytes, int gpu, uint64_t limit) {
  *block = nullptr;
  if (cudaError_t error = refuseInCapture())
    return error;
  if (bytes == 0)
    return cudaSuccess;
  *block = memory().allocate(bytes, gpu, limit);
  return *block ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t giveBack(void *block, bool isPinned) {
  if (!block)
    return cudaSuccess;
  if (cudaError_t error = refuseInCapture())
    return error;
  // As CUDA's, which waits until nobody can use it.
  finishGpu(current);
  return memory().release(block, isPinned) ? cudaSuccess
                                           : cudaErrorInvalidValue;
}

} // namespace

void enqueue(cudaStream_t stream, std::function<void()> function) {
  told(launch(stream, std::move(function)));
}

InCaller::InCaller(cudaStream_t stream)
    : stream(stream), before(setInCaller(stream, true)) {}
InCaller::~InCaller() { setInCaller(stream, before); }

uint64_t bytesInUse() { return memory().used(); }

} // namespace fsdp::imitation

struct CUgraph_st {
  Nodes nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<const Nodes> nodes;
};

cudaError_t cudaGetLastError() { return std::exchange(lastError, cudaSuccess); }

cudaError_t cudaDriverGetVersion(int *version) {
  *version = host().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  return call(__func__, [&] {
    Host here = host();
    *count = 0;
    // Minor versions of a driver and a runtime fit each other.
    if (here.driver / 1000 < CUDART_VERSION / 1000)
      return cudaErrorInsufficientDriver;
    *count = here.gpus;
    return here.gpus ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call(__func__, [&] {
    if (device < 0 || device >= host().gpus)
      return cudaErrorInvalidDevice;
    current = device;
    firstStream = true;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  return call(__func__, [&] {
    Host here = host();
    if (device < 0 || device >= here.gpus)
      return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "imitated GPU");
    properties->uuid.bytes[0] = static_cast<char>(1 + device);
    properties->totalGlobalMem = here.bytes;
    properties->memPitch = here.pitch;
    properties->major = 9;
    properties->multiProcessorCount = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  return call(__func__, [&] {
    *total = host().bytes;
    *free = *total - memory().used(current);
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void **block, size_t bytes) {
  return call(__func__,
              [&] { return allocate(block, bytes, current, host().bytes); });
}

cudaError_t cudaHostAlloc(void **block, size_t bytes, unsigned) {
  return call(__func__,
              [&] { return allocate(block, bytes, pinned, UINT64_MAX); });
}

cudaError_t cudaFree(void *block) {
  return release([&] { return giveBack(block, /*isPinned=*/false); });
}

cudaError_t cudaFreeHost(void *block) {
  return release([&] { return giveBack(block, /*isPinned=*/true); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  return call(__func__, [&] {
    return copyRows({to, bytes, bytes, 1}, {from, bytes, bytes, 1}, stream);
  });
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from,
                              size_t fromPitch, size_t width, size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  return call(__func__, [&] {
    Rows target = {to, toPitch, width, height};
    Rows source = {from, fromPitch, width, height};
    for (const Rows &rows : {target, source})
      if (cudaError_t error = checkPitch(rows))
        return error;
    return copyRows(target, source, stream);
  });
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t stream) {
  return call(__func__, [&] {
    return fillRows({to, bytes, bytes, 1}, value, stream);
  });
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width,
                              size_t height, cudaStream_t stream) {
  return call(__func__, [&] {
    Rows rows = {to, pitch, width, height};
    cudaError_t error = checkPitch(rows);
    return error ? error : fillRows(rows, value, stream);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  return call(__func__, [&] {
    return makeStream(current, std::exchange(firstStream, false), stream);
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return release([&] { return destroyStream(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call(__func__, [&] { return finish(stream); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  bool hasTime = !(flags & cudaEventDisableTiming);
  return call(__func__, [&] { return makeEvent(hasTime, event); });
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  return call(__func__, [&] { return elapsed(begin, end, milliseconds); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return release([&] { return destroyEvent(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call(__func__, [&] { return record(event, stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  return call(__func__, [&] { return wait(stream, event); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call(__func__, [&] {
    cudaError_t error = refuseInCapture();
    return error ? error : query(event);
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return call(__func__, [&] {
    cudaError_t error = beginCapture(stream);
    if (!error)
      tellObserver(stream);
    return error;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  return call(__func__, [&] {
    *graph = nullptr;
    tellObserver(nullptr);
    Nodes nodes;
    cudaError_t error = endCapture(stream, nodes);
    if (error == cudaSuccess)
      *graph = new CUgraph_st{std::move(nodes)};
    return error;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long) {
  return call(__func__, [&] {
    *exec = new CUgraphExec_st{std::make_shared<const Nodes>(graph->nodes)};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call(__func__, [&] {
    // Graphs within graphs are not what this project makes.
    if (cudaError_t error = refuseInCapture(stream))
      return error;
    countGraphLaunch();
    return launch(stream, [nodes = exec->nodes] { replay(*nodes); });
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
