// Streams, events and captures of the imitation, behind the functions of
// CUDA's. Errors are returned; threads are safe.
#ifndef FSDP_TEST_IMITATION_STREAMS_H
#define FSDP_TEST_IMITATION_STREAMS_H

#include <chrono>
#include <condition_variable>
#include <cuda_runtime_api.h>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace fsdp::imitation {

using Work = std::function<void()>;

/// A point in a stream's work, under the lock of State.
struct Mark {
  bool over = false;
  std::chrono::steady_clock::time_point at; // which it was
};
using MarkPointer = std::shared_ptr<Mark>;
void complete(const MarkPointer &mark);
void waitFor(const MarkPointer &mark);

/// What a capture has collected: work, the nodes that it follows, and the
/// stream (0: the first) whose order it shares.
struct Node {
  Work work;
  std::set<size_t> after;
  size_t lane;
};
using Nodes = std::vector<Node>;

struct Capture {
  std::thread::id owner;
  std::vector<cudaStream_t> streams; // by lane, the first began it
  Nodes nodes;
  bool invalid = false;
};

/// All streams, events, marks and captures, behind one lock; work runs without
/// it.
struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<std::shared_ptr<Capture>> captures; // those that have not ended
  cudaError_t failure = cudaSuccess;
};
State &state();

/// Runs all nodes in their order: the first lane in the calling thread, each
/// other one in a thread. Returns when all are over.
void replay(const Nodes &nodes);

/// Runs it and keeps what it throws for later calls (see failure()).
void run(const Work &work);
/// What went wrong in what was launched; it stays.
cudaError_t failure();
void forgetFailure();

cudaError_t makeStream(int gpu, bool inCaller, cudaStream_t *stream);
cudaError_t destroyStream(cudaStream_t stream);
/// See InCaller. Returns what it was before.
bool setInCaller(cudaStream_t stream, bool inCaller);
/// Launches work, or captures it.
cudaError_t launch(cudaStream_t stream, Work work);
cudaError_t finish(cudaStream_t stream);
/// Waits for all streams of a GPU.
void finishGpu(int gpu);

cudaError_t makeEvent(bool hasTime, cudaEvent_t *event);
cudaError_t destroyEvent(cudaEvent_t event);
cudaError_t record(cudaEvent_t event, cudaStream_t stream);
cudaError_t wait(cudaStream_t stream, cudaEvent_t event);
cudaError_t query(cudaEvent_t event);
cudaError_t elapsed(cudaEvent_t begin, cudaEvent_t end, float *milliseconds);

/// Makes it invalid and returns the error.
cudaError_t invalidate(const std::shared_ptr<Capture> &capture,
                       cudaError_t error);
/// The stream's work is captured from now on, behind these nodes. Under the
/// lock.
void join(cudaStream_t stream, const std::shared_ptr<Capture> &capture,
          const std::set<size_t> &behind);
/// For what is forbidden to a thread that captures, or on a stream that is
/// captured: makes the capture invalid.
cudaError_t refuseInCapture();
cudaError_t refuseInCapture(cudaStream_t stream);
cudaError_t beginCapture(cudaStream_t stream);
cudaError_t endCapture(cudaStream_t stream, Nodes &nodes);

} // namespace fsdp::imitation

struct CUstream_st {
  int gpu = 0;
  bool inCaller = false;
  std::deque<fsdp::imitation::Work> queue; // the first one runs
  bool ending = false;
  std::thread thread;
  std::shared_ptr<fsdp::imitation::Capture> capture;
  size_t lane = 0;         // of the capture
  std::set<size_t> behind; // what its next node follows
};

struct CUevent_st {
  bool hasTime = false;
  fsdp::imitation::MarkPointer mark; // null: never recorded
  std::shared_ptr<fsdp::imitation::Capture> capture;
  std::set<size_t> behind; // of the capture
};

#endif // FSDP_TEST_IMITATION_STREAMS_H
