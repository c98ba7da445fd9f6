#include "trace/Recorder.h"

#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace fsdp::trace {

void Recorder::beginRun(uint32_t program, uint64_t step, uint64_t microBatch) {
  run = {program, step, microBatch, nanoseconds(Clock::now()), 0, {}};
  for (std::vector<Span> &spans : streams)
    spans.clear(); // of a run that has failed
  reached = 0;
  isRunning = true;
}

void Recorder::endRun() {
  isRunning = false;
  run.end = nanoseconds(Clock::now());
  for (std::vector<Span> &spans : streams) {
    run.spans.insert(run.spans.end(), spans.begin(), spans.end());
    spans.clear();
  }
  done.push_back(std::move(run));
}

namespace {

/// What stands in front of a run's spans.
struct Header {
  uint64_t program, step, microBatch, spans;
  int64_t begin, end;
};
static_assert(std::is_trivially_copyable_v<Span>);

} // namespace

std::vector<char> packRuns(const std::vector<ProgramRun> &runs) {
  std::vector<char> bytes;
  auto add = [&](const void *data, size_t size) {
    const char *begin = static_cast<const char *>(data);
    bytes.insert(bytes.end(), begin, begin + size);
  };
  for (const ProgramRun &run : runs) {
    Header header = {run.program,      run.step,  run.microBatch,
                     run.spans.size(), run.begin, run.end};
    add(&header, sizeof(header));
    add(run.spans.data(), run.spans.size() * sizeof(Span));
  }
  return bytes;
}

std::vector<ProgramRun> unpackRuns(const std::vector<char> &bytes) {
  std::vector<ProgramRun> runs;
  size_t at = 0;
  auto take = [&](void *data, size_t size) {
    if (size > bytes.size() - at)
      throw Error(E::Trace, "a rank sent half of a trace");
    if (size)
      std::memcpy(data, bytes.data() + at, size);
    at += size;
  };
  while (at < bytes.size()) {
    Header header;
    take(&header, sizeof(header));
    if (header.spans > (bytes.size() - at) / sizeof(Span))
      throw Error(E::Trace, "a rank sent half of a trace");
    ProgramRun &run = runs.emplace_back();
    run.program = static_cast<uint32_t>(header.program);
    run.step = header.step;
    run.microBatch = header.microBatch;
    run.begin = header.begin;
    run.end = header.end;
    run.spans.resize(header.spans);
    take(run.spans.data(), run.spans.size() * sizeof(Span));
  }
  return runs;
}

} // namespace fsdp::trace
