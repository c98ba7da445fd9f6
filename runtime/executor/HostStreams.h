#ifndef FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H
#define FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H

#include "executor/Streams.h"

#include <chrono>
#include <memory>

namespace fsdp {

/// How a program's streams run on the host: all in the calling thread, or a
/// thread for each that has collectives.
enum class HostStreamKind { Inline, Threads };

/// Streams on the host, where what is launched on stream 0 is over on return.
class HostStreams : public Streams {
public:
  uint64_t mark() override { return 0; }
  void await(uint64_t) override {}
  std::optional<Times> times() const override { return spent; }
  void setRecorder(trace::Recorder *to) override { recorder = to; }
  void runRecorded(const std::function<void()> &launch) override {
    auto begin = Clock::now();
    launch();
    ran(plan::computeStream, current(), begin, Clock::now());
  }

protected:
  using Clock = std::chrono::steady_clock;

  /// A copy, carried out at once.
  static void carryOut(const std::vector<CopyPiece> &pieces);

  /// The command that the program has come to; any where nobody records.
  uint32_t current() const { return recorder ? recorder->current() : 0; }
  /// A command that has run on a stream.
  void ran(unsigned stream, uint32_t command, Clock::time_point begin,
           Clock::time_point end) {
    if (recorder)
      recorder->add(trace::Span::Command, stream, command, command, begin, end);
  }
  /// The calling thread was kept from computing: counts it, and tells of it.
  void expose(trace::Span::Kind kind, uint32_t command, Clock::time_point begin,
              Clock::time_point end) {
    spent.exposed += std::chrono::duration<double>(end - begin).count();
    if (recorder)
      recorder->add(kind, plan::computeStream, command, recorder->current(),
                    begin, end);
  }

  Times spent;
  trace::Recorder *recorder = nullptr;
};

/// In one thread. A stream goes on as far as it can without waiting for other
/// ranks. A transfer is started when its turn comes. It is finished when
/// another stream needs what stands behind it, or a later transfer of its
/// stream uses the same memory.
std::unique_ptr<Streams> makeInlineStreams(Communicator &communicator);

/// A thread for each stream but 0. Transfers start in the order of their launch
/// over all streams, one at a time. A thread's error is thrown in the calling
/// thread's next call.
std::unique_ptr<Streams> makeThreadStreams(Communicator &communicator);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H
