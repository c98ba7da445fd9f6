// Takes down what a rank does.
#ifndef FSDP_RUNTIME_TRACE_RECORDER_H
#define FSDP_RUNTIME_TRACE_RECORDER_H

#include "plan/PlanTypes.h"
#include "trace/ProgramRun.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace fsdp::trace {

/// The clock of a host: CLOCK_MONOTONIC, which its processes share.
using Clock = std::chrono::steady_clock;

inline int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             time.time_since_epoch())
      .count();
}

/// Runs of one rank. What is done between them, as inputs and outputs are
/// copied, is not taken down. Each stream's spans are added by one thread at a
/// time, all else is done by the thread that runs the programs.
class Recorder {
public:
  void beginRun(uint32_t program, uint64_t step, uint64_t microBatch);
  /// The run begins no sooner: a device was still at the run before. Its times
  /// are the device's, which is at most `uncertainty` off the host's clock.
  void beginAt(Clock::time_point time, Clock::duration uncertainty) {
    run.begin = nanoseconds(time);
    farthestOff = std::max<int64_t>(
        farthestOff,
        std::chrono::duration_cast<std::chrono::nanoseconds>(uncertainty)
            .count());
  }
  /// All streams are through.
  void endRun();

  /// The program comes to a command; as many as it has: to its end.
  void comeTo(uint32_t command) { reached = command; }
  uint32_t current() const { return reached; }

  void add(Span::Kind kind, uint32_t stream, uint32_t command, uint32_t reached,
           Clock::time_point begin, Clock::time_point end) {
    if (isRunning)
      streams[stream].push_back({kind, stream, command, reached,
                                 nanoseconds(begin), nanoseconds(end)});
  }

  const std::vector<ProgramRun> &runs() const { return done; }

  /// The runs' times are at most so far off the host's clock, in nanoseconds.
  int64_t uncertainty() const { return farthestOff; }

private:
  uint32_t reached = 0;
  bool isRunning = false;
  int64_t farthestOff = 0;
  ProgramRun run;
  std::array<std::vector<Span>, std::size(plan::streamNames)> streams;
  std::vector<ProgramRun> done;
};

/// Runs as bytes, to be sent to another rank of the same program.
std::vector<char> packRuns(const std::vector<ProgramRun> &runs);
std::vector<ProgramRun> unpackRuns(const std::vector<char> &bytes);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_RECORDER_H
