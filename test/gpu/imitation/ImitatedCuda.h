// CUDA's runtime library, imitated for tests: GPUs of host memory, streams that
// are queues with a thread each. Programs that link it need no GPU and no
// driver, and see CUDA's order, errors and refusals.
//
// The first stream that a thread makes after cudaSetDevice, number 0 of a
// Device, has no thread: what is launched on it runs in the caller, who waits
// for what the stream waits for. So PyTorch's CPU kernels, which know nothing
// of streams, stand in order on it (see ImitatedKernels.h for other streams).
// They are part of a graph where RecordedKernels.h makes them so; else a graph
// is made of copies, fills and enqueue().
//
// Stricter than CUDA, so that what passes here passes there: a stream that
// joined a capture must be joined again although nothing was launched on it,
// copies of pageable memory cannot be captured, and a stream that is captured
// cannot wait for an event that was not.

#ifndef FSDP_TEST_IMITATION_IMITATEDCUDA_H
#define FSDP_TEST_IMITATION_IMITATEDCUDA_H

#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>

namespace fsdp::imitation {

/// What a host has.
struct Host {
  int gpus = 1;
  /// Device memory of each GPU.
  uint64_t bytes = uint64_t(1) << 30;
  /// As cudaDriverGetVersion gives it; 0: no driver.
  int driver = CUDART_VERSION;
  /// The longest pitch of a two-dimensional copy.
  uint64_t pitch = 0x7fffffff;
};

/// While it lives, the process runs on such a host; before and behind it on
/// Host(). Device memory, streams and events of one host end with it.
class UseHost {
public:
  explicit UseHost(const Host &host);
  ~UseHost();
  UseHost(const UseHost &) = delete;
  UseHost &operator=(const UseHost &) = delete;
};

/// The `nth` call of a function from now on (1: the next), by any thread, does
/// nothing and returns `error`. Forgotten when the UseHost ends.
void failCall(const char *function, unsigned nth, cudaError_t error);

/// Launches a function on a stream, as a kernel is: it runs when what is on the
/// stream before it is over, and again with each launch of a graph when the
/// stream is captured. When it throws, a cudaError_t or anything, the GPU is
/// lost: later calls fail with that error, or cudaErrorLaunchFailure.
void enqueue(cudaStream_t stream, std::function<void()> function);

/// While it lives, what is launched on a stream runs in the calling thread, as
/// on number 0; first everything that is on it ends.
class InCaller {
public:
  explicit InCaller(cudaStream_t stream);
  ~InCaller();
  InCaller(const InCaller &) = delete;
  InCaller &operator=(const InCaller &) = delete;

private:
  cudaStream_t stream;
  bool before;
};

/// Is called by a thread that begins to capture on a stream, and, with null,
/// when it ends.
void observeCaptures(void (*observer)(cudaStream_t));

/// Calls of cudaGraphLaunch since the UseHost began.
unsigned graphLaunches();

/// Device memory that is allocated, of all GPUs, and pinned memory.
uint64_t bytesInUse();

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_IMITATEDCUDA_H
