// Graphs: what is collected of the streams instead of being run, and how it is
// run.
#include "Streams.h"

#include <algorithm>

namespace fsdp::imitation {

namespace {

/// Those that `of` stand behind, themselves included.
std::set<size_t> standBefore(const Nodes &nodes, const std::set<size_t> &of) {
  std::set<size_t> all = of;
  // Nodes follow earlier ones only.
  for (size_t i = nodes.size(); i-- > 0;)
    if (all.count(i))
      all.insert(nodes[i].after.begin(), nodes[i].after.end());
  return all;
}

} // namespace

cudaError_t invalidate(const std::shared_ptr<Capture> &capture,
                       cudaError_t error) {
  capture->invalid = true;
  return error;
}

void join(cudaStream_t stream, const std::shared_ptr<Capture> &capture,
          const std::set<size_t> &behind) {
  stream->capture = capture;
  stream->lane = capture->streams.size();
  capture->streams.push_back(stream);
  // Nothing yet, but it has to be waited for.
  capture->nodes.push_back({[] {}, behind, stream->lane});
  stream->behind = {capture->nodes.size() - 1};
}

cudaError_t refuseInCapture() {
  std::lock_guard<std::mutex> lock(state().mutex);
  for (auto &capture : state().captures)
    if (capture->owner == std::this_thread::get_id())
      return invalidate(capture, cudaErrorStreamCaptureUnsupported);
  return cudaSuccess;
}

cudaError_t refuseInCapture(cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(state().mutex);
  return state().streams.count(stream) && stream->capture
             ? invalidate(stream->capture, cudaErrorStreamCaptureUnsupported)
             : cudaSuccess;
}

cudaError_t beginCapture(cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!state().streams.count(stream))
    return cudaErrorInvalidResourceHandle;
  if (stream->capture)
    return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->owner = std::this_thread::get_id();
  state().captures.insert(capture);
  join(stream, capture, {});
  return cudaSuccess;
}

cudaError_t endCapture(cudaStream_t stream, Nodes &nodes) {
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!state().streams.count(stream))
    return cudaErrorInvalidResourceHandle;
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture)
    return cudaErrorIllegalState;
  if (capture->streams.front() != stream)
    return invalidate(capture, cudaErrorStreamCaptureUnmatched);
  if (capture->owner != std::this_thread::get_id())
    return invalidate(capture, cudaErrorStreamCaptureWrongThread);
  bool joined = standBefore(capture->nodes, stream->behind).size() ==
                capture->nodes.size();
  for (cudaStream_t s : capture->streams)
    if (state().streams.count(s)) {
      s->capture = nullptr;
      s->behind.clear();
    }
  state().captures.erase(capture);
  if (capture->invalid)
    return cudaErrorStreamCaptureInvalidated;
  if (!joined)
    return cudaErrorStreamCaptureUnjoined;
  nodes = std::move(capture->nodes);
  return cudaSuccess;
}

void replay(const Nodes &nodes) {
  std::vector<MarkPointer> marks;
  size_t lanes = 1;
  for (const Node &node : nodes) {
    marks.push_back(std::make_shared<Mark>());
    lanes = std::max(lanes, node.lane + 1);
  }
  auto runLane = [&](size_t lane) {
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].lane == lane) {
        for (size_t before : nodes[i].after)
          waitFor(marks[before]);
        run(nodes[i].work);
        complete(marks[i]);
      }
  };
  std::vector<std::thread> threads;
  for (size_t lane = 1; lane < lanes; ++lane)
    threads.emplace_back(runLane, lane);
  runLane(0);
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace fsdp::imitation
