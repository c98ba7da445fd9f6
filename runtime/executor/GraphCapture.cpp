#include "executor/GraphCapture.h"

#include "FlagOrArgument.h"
#include "plan/FormatText.h"

#include <exception>

namespace fsdp {

std::string GraphCapture::capture(LoadedProgram &program,
                                  const std::function<void()> &launch) {
  std::string reason = whyNot(program);
  bool all = backend.agree(reason.empty());
  if (all) {
    reason = record(program, launch);
    all = backend.agree(reason.empty());
  }
  if (all)
    return "";
  program.graph.reset();
  return reason.empty() ? "another rank cannot capture it" : reason;
}

std::string GraphCapture::whyNot(const LoadedProgram &program) const {
  for (const std::string &reason :
       {backend.whyNotCaptured(), program.whyNotCaptured()})
    if (!reason.empty())
      return reason;
  if (device.random.isSequential())
    return flagOrArgument("--rng sequential", "rng='sequential'") +
           " seeds nothing anew";
  for (const LoadedProgram::Copy &copy : program.copies)
    if (copy.offloadBytes && !plan.arenas.at(plan::hostArena)->pinned)
      return "it copies host memory that is not pinned (pin-memory=false)";
  return "";
}

std::string GraphCapture::record(LoadedProgram &program,
                                 const std::function<void()> &launch) {
  uint64_t outside = device.scratch.bytesOutside();
  std::string reason;
  std::exception_ptr gone; // a rank; told when the capture is over
  auto attempt = [&](const auto &body) {
    try {
      body();
    } catch (const PeerFailure &) {
      gone = std::current_exception();
    } catch (const std::exception &error) {
      if (reason.empty()) // else it follows from that
        reason = firstLine(error.what());
    }
  };
  device.random.seedFrom(numbers);
  backend.beginCapture();
  attempt(launch);
  std::unique_ptr<DeviceGraph> graph;
  attempt([&] { graph = backend.endCapture(); });
  device.random.seedFrom(nullptr);
  if (gone) {
    graph.reset();
    std::rethrow_exception(gone);
  }
  // What lies there then is somebody else's when the graph runs.
  if (reason.empty() && device.scratch.bytesOutside() != outside)
    reason = "its operators allocate otherwise than in their first runs";
  if (reason.empty()) {
    program.graph = std::move(graph);
    device.scratch.keepRegion();
  }
  return reason;
}

} // namespace fsdp
