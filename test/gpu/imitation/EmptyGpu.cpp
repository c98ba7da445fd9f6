#include "EmptyGpu.h"

#include "HiddenMemory.h"

#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>

using namespace fsdp::imitation;

namespace {

constexpr int sharedBytes = 227 * 1024;

struct State {
  std::function<void(cudaStream_t, void **)> see;
  bool capturing = false;
  size_t workspace = 0, graphLaunches = 0;
};

State &state() {
  static State state;
  return state;
}

/// Something to point at.
template <typename Handle> cudaError_t make(Handle *handle) {
  static char things[1 << 10];
  static size_t made = 0;
  *handle = reinterpret_cast<Handle>(&things[made++ * 8 % sizeof(things)]);
  return cudaSuccess;
}

cudaError_t gave(void *memory) {
  return memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

template <typename T> cudaError_t answer(T *place, T value) {
  *place = value;
  return cudaSuccess;
}

} // namespace

void fsdp::imitation::onLaunch(std::function<void(cudaStream_t, void **)> see) {
  state().see = std::move(see);
}

size_t fsdp::imitation::cublasWorkspaceBytes() { return state().workspace; }

size_t fsdp::imitation::graphLaunches() { return state().graphLaunches; }

// What only has to succeed is in CMakeLists.txt.
extern "C" {

int succeed() { return 0; }

cudaError_t cudaGetDeviceCount(int *count) { return answer(count, 1); }
cudaError_t cudaGetDevice(int *device) { return answer(device, 0); }
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaDriverGetVersion(int *version) {
  return answer(version, CUDART_VERSION);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  std::memset(properties, 0, sizeof(*properties));
  std::strcpy(properties->name, "empty");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxThreadsPerBlock = 1024;
  for (int i = 0; i < 3; ++i) {
    properties->maxGridSize[i] = i == 0 ? 0x7fffffff : 0xffff;
    properties->maxThreadsDim[i] = i == 2 ? 64 : 1024;
  }
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = sharedBytes;
  properties->warpSize = 32;
  return cudaSuccess;
}
/// All that is asked for is the shared memory of a block.
cudaError_t cudaDeviceGetAttribute(int *bytes, cudaDeviceAttr, int) {
  return answer(bytes, sharedBytes);
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  return answer(free, *total = size_t(1) << 34);
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
  return gave(*memory = allocateHidden(bytes));
}
cudaError_t cudaFree(void *memory) {
  return freeHidden(memory) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
  return gave(*memory = std::malloc(bytes));
}
cudaError_t cudaFreeHost(void *memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int byte,
                              size_t bytes, size_t rows, cudaStream_t) {
  for (size_t row = 0; row < rows && !state().capturing; ++row)
    std::memset(shown(memory) + row * pitch, byte, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes,
                            cudaStream_t stream) {
  return cudaMemset2DAsync(memory, bytes, byte, bytes, 1, stream);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from,
                              size_t fromPitch, size_t bytes, size_t rows,
                              cudaMemcpyKind, cudaStream_t) {
  for (size_t row = 0; row < rows && !state().capturing; ++row)
    std::memmove(shown(to) + row * toPitch, shown(from) + row * fromPitch,
                 bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  return make(stream);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) {
  return make(stream);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  return answer(least, *greatest = 0);
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return state().capturing ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  return make(event);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  state().capturing = true;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
  state().capturing = false;
  return make(graph);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t,
                                  cudaStreamCaptureStatus *status) {
  return answer(status, state().capturing ? cudaStreamCaptureStatusActive
                                          : cudaStreamCaptureStatusNone);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  ++state().graphLaunches;
  return cudaSuccess;
}

// What the compiler makes of <<<...>>>.
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *) {
  return make(kernel);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **arguments,
                               size_t, cudaStream_t stream) {
  if (state().see)
    state().see(stream, arguments);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                   const void *,
                                                                   int, size_t,
                                                                   unsigned) {
  return answer(blocks, 1);
}
/// Code for this GPU.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes,
                                  const void *) {
  *attributes = {};
  attributes->binaryVersion = 90;
  return cudaSuccess;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *flags, int *active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  make(context);
  return CUDA_SUCCESS;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  make(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void *, size_t bytes) {
  state().workspace = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *found,
    int *count) {
  *found = {};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
}
