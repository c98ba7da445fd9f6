// Takes down what a rank does.
#ifndef FSDP_RUNTIME_TRACE_RECORDER_H
#define FSDP_RUNTIME_TRACE_RECORDER_H

#include "plan/PlanTypes.h"
#include "trace/ProgramRun.h"

#include <array>
#include <chrono>

namespace fsdp::trace {

/// The clock of a host: CLOCK_MONOTONIC, which its processes share.
inline int64_t hostNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Runs of one rank. Each stream's spans are added by one thread at a time, all
/// else is done by the thread that runs the programs.
class Recorder {
public:
  void beginRun(uint32_t program, uint64_t step, uint64_t microBatch);
  /// All streams are through.
  void endRun();

  /// The program comes to a command; as many as it has: to its end.
  void comeTo(uint32_t command) { turn = command; }
  uint32_t current() const { return turn; }

  void add(Span::Kind kind, uint32_t stream, uint32_t command, uint32_t turn,
           int64_t begin, int64_t end) {
    streams[stream].push_back({kind, stream, command, turn, begin, end});
  }

  const std::vector<ProgramRun> &runs() const { return done; }

private:
  uint32_t turn = 0;
  ProgramRun run;
  std::array<std::vector<Span>, std::size(plan::streamNames)> streams;
  std::vector<ProgramRun> done;
};

/// Runs as bytes, to be sent to another rank of the same program.
std::vector<char> packRuns(const std::vector<ProgramRun> &runs);
std::vector<ProgramRun> unpackRuns(const std::vector<char> &bytes);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_RECORDER_H
