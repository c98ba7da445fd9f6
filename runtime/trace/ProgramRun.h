// What one run of a program did, and when.
#ifndef FSDP_RUNTIME_TRACE_PROGRAMRUN_H
#define FSDP_RUNTIME_TRACE_PROGRAMRUN_H

#include <cstdint>
#include <vector>

namespace fsdp::trace {

/// No command.
constexpr uint32_t nothing = UINT32_MAX;

/// A stretch of time on a stream, in nanoseconds of the run's clock.
struct Span {
  enum Kind : uint32_t {
    Command, // `command` ran
    Start,   // the compute stream was kept by starting `command`
    Wait // or by waiting for it; `nothing`: for whatever `reached` waits for
  };
  Kind kind = Command;
  uint32_t stream = 0;
  uint32_t command = nothing;
  /// The command that the program had come to; as many as it has: its end.
  uint32_t reached = 0;
  int64_t begin = 0, end = 0;
};

/// One run. Spans come by stream, and on each in the order of their ends.
struct ProgramRun {
  uint32_t program = 0;
  uint64_t step = 0, microBatch = 0; // from 1, from 0
  int64_t begin = 0, end = 0;
  std::vector<Span> spans;

  /// Shows its times on a clock that shows so much more.
  void shift(int64_t nanoseconds) {
    begin += nanoseconds;
    end += nanoseconds;
    for (Span &span : spans) {
      span.begin += nanoseconds;
      span.end += nanoseconds;
    }
  }
};

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_PROGRAMRUN_H
