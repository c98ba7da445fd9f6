#include "Streams.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace fsdp::imitation {

namespace {

using Lock = std::unique_lock<std::mutex>;

bool known(cudaStream_t stream) { return state().streams.count(stream); }
bool known(cudaEvent_t event) { return state().events.count(event); }

/// What a stream's thread does.
void serve(cudaStream_t stream) {
  Lock lock(state().mutex);
  while (true) {
    state().changed.wait(
        lock, [&] { return stream->ending || !stream->queue.empty(); });
    if (stream->queue.empty())
      return;
    Work work = stream->queue.front();
    lock.unlock();
    run(work);
    work = nullptr; // and what it holds, while nobody is locked out
    lock.lock();
    stream->queue.pop_front();
    state().changed.notify_all();
  }
}

void waitForQueue(cudaStream_t stream, Lock &lock) {
  state().changed.wait(lock, [&] { return stream->queue.empty(); });
}

} // namespace

State &state() {
  static auto *instance = new State(); // streams may end after main
  return *instance;
}

void complete(const MarkPointer &mark) {
  std::lock_guard<std::mutex> lock(state().mutex);
  mark->over = true;
  mark->at = std::chrono::steady_clock::now();
  state().changed.notify_all();
}

void waitFor(const MarkPointer &mark) {
  Lock lock(state().mutex);
  state().changed.wait(lock, [&] { return mark->over; });
}

void run(const Work &work) {
  cudaError_t error = cudaSuccess;
  try {
    work();
  } catch (cudaError_t thrown) {
    error = thrown;
  } catch (const std::exception &thrown) {
    std::fprintf(stderr, "imitated GPU: %s\n", thrown.what());
    error = cudaErrorLaunchFailure;
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  if (state().failure == cudaSuccess)
    state().failure = error;
}

cudaError_t failure() {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().failure;
}

void forgetFailure() {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().failure = cudaSuccess;
}

cudaError_t makeStream(int gpu, bool inCaller, cudaStream_t *stream) {
  std::lock_guard<std::mutex> lock(state().mutex);
  *stream = new CUstream_st();
  (*stream)->gpu = gpu;
  (*stream)->inCaller = inCaller;
  state().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t destroyStream(cudaStream_t stream) {
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (!state().streams.erase(stream))
      return cudaErrorInvalidResourceHandle;
    if (auto capture = stream->capture) {
      invalidate(capture, cudaSuccess);
      if (capture->streams.front() == stream) // which nobody ends now
        state().captures.erase(capture);
    }
    stream->ending = true;
    state().changed.notify_all();
  }
  if (stream->thread.joinable())
    stream->thread.join();
  delete stream;
  return cudaSuccess;
}

bool setInCaller(cudaStream_t stream, bool inCaller) {
  Lock lock(state().mutex);
  waitForQueue(stream, lock);
  return std::exchange(stream->inCaller, inCaller);
}

cudaError_t launch(cudaStream_t stream, Work work) {
  Lock lock(state().mutex);
  if (!known(stream))
    return cudaErrorInvalidResourceHandle;
  if (Capture *capture = stream->capture.get()) {
    if (capture->invalid)
      return cudaErrorStreamCaptureInvalidated;
    capture->nodes.push_back({std::move(work), stream->behind, stream->lane});
    stream->behind = {capture->nodes.size() - 1};
    return cudaSuccess;
  }
  if (stream->inCaller) {
    lock.unlock();
    run(work);
    return cudaSuccess;
  }
  stream->queue.push_back(std::move(work));
  if (!stream->thread.joinable())
    stream->thread = std::thread(serve, stream);
  state().changed.notify_all();
  return cudaSuccess;
}

cudaError_t finish(cudaStream_t stream) {
  Lock lock(state().mutex);
  if (!known(stream))
    return cudaErrorInvalidResourceHandle;
  if (stream->capture)
    return invalidate(stream->capture, cudaErrorStreamCaptureUnsupported);
  waitForQueue(stream, lock);
  return state().failure;
}

void finishGpu(int gpu) {
  Lock lock(state().mutex);
  state().changed.wait(lock, [&] {
    return std::all_of(
        state().streams.begin(), state().streams.end(),
        [&](cudaStream_t s) { return s->gpu != gpu || s->queue.empty(); });
  });
}

cudaError_t makeEvent(bool hasTime, cudaEvent_t *event) {
  std::lock_guard<std::mutex> lock(state().mutex);
  *event = new CUevent_st();
  (*event)->hasTime = hasTime;
  state().events.insert(*event);
  return cudaSuccess;
}

cudaError_t destroyEvent(cudaEvent_t event) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!state().events.erase(event))
    return cudaErrorInvalidResourceHandle;
  delete event;
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  auto mark = std::make_shared<Mark>();
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (!known(event) || !known(stream))
      return cudaErrorInvalidResourceHandle;
    event->mark = mark;
    event->capture = stream->capture;
    event->behind = stream->behind;
    if (stream->capture)
      return stream->capture->invalid ? cudaErrorStreamCaptureInvalidated
                                      : cudaSuccess;
  }
  return launch(stream, [mark] { complete(mark); });
}

cudaError_t wait(cudaStream_t stream, cudaEvent_t event) {
  MarkPointer mark;
  {
    std::lock_guard<std::mutex> lock(state().mutex);
    if (!known(event) || !known(stream))
      return cudaErrorInvalidResourceHandle;
    auto &from = event->capture, &to = stream->capture;
    if (to && to->invalid)
      return cudaErrorStreamCaptureInvalidated;
    if (from && !state().captures.count(from))
      return to ? invalidate(to, cudaErrorStreamCaptureIsolation)
                : cudaErrorCapturedEvent;
    if (from && to && from != to) {
      invalidate(from, cudaSuccess);
      return invalidate(to, cudaErrorStreamCaptureMerge);
    }
    if (to && !from)
      return invalidate(to, cudaErrorStreamCaptureIsolation);
    if (from) {
      if (!to)
        join(stream, from, event->behind);
      stream->behind.insert(event->behind.begin(), event->behind.end());
      return cudaSuccess;
    }
    mark = event->mark;
  }
  return mark ? launch(stream, [mark] { waitFor(mark); }) : cudaSuccess;
}

cudaError_t query(cudaEvent_t event) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!known(event))
    return cudaErrorInvalidResourceHandle;
  if (event->capture)
    return invalidate(event->capture, cudaErrorCapturedEvent);
  if (event->mark && !event->mark->over)
    return cudaErrorNotReady;
  return state().failure;
}

cudaError_t elapsed(cudaEvent_t begin, cudaEvent_t end, float *milliseconds) {
  std::lock_guard<std::mutex> lock(state().mutex);
  for (cudaEvent_t event : {begin, end}) {
    if (!known(event) || !event->hasTime || !event->mark || event->capture)
      return cudaErrorInvalidResourceHandle;
    if (!event->mark->over)
      return cudaErrorNotReady;
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->mark->at - begin->mark->at)
          .count();
  return state().failure;
}

} // namespace fsdp::imitation
