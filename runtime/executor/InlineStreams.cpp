#include "executor/HostStreams.h"

#include <chrono>
#include <deque>
#include <vector>

namespace fsdp {

namespace {

class InlineStreams final : public HostStreams {
public:
  explicit InlineStreams(Communicator &communicator)
      : communicator(communicator) {}

  void begin(size_t count) override {
    events.assign(count, {});
    streams.clear();
  }

  void transfer(unsigned s, const Transfer &transfer) override {
    timed([&] {
      Stream &stream = at(s);
      stream.inFlight.push_back(communicator.start(transfer));
      ++stream.started;
      if (s == plan::computeStream)
        finish(stream, stream.started);
    });
  }

  void record(unsigned stream, unsigned event) override {
    events.at(event) = {stream, at(stream).started};
  }

  void wait(unsigned stream, unsigned event) override {
    const Event &recorded = events.at(event);
    Stream &source = at(recorded.stream);
    if (recorded.stream != stream && source.finished < recorded.started)
      timed([&] { finish(source, recorded.started); });
  }

  void drain() override {
    timed([&] {
      for (Stream &stream : streams)
        finish(stream, stream.started);
    });
  }

  void abandon(const std::string &) override {}

private:
  struct Stream {
    uint64_t started = 0, finished = 0;
    std::deque<uint64_t> inFlight;
  };
  /// What its stream had started when the event was recorded.
  struct Event {
    unsigned stream = 0;
    uint64_t started = 0;
  };

  Stream &at(unsigned stream) {
    if (stream >= streams.size())
      streams.resize(stream + 1);
    return streams[stream];
  }

  void finish(Stream &stream, uint64_t upTo) {
    for (; stream.finished < upTo; ++stream.finished) {
      uint64_t next = stream.inFlight.front();
      stream.inFlight.pop_front();
      communicator.finish(next);
    }
  }

  template <typename Body> void timed(Body &&body) {
    auto begin = std::chrono::steady_clock::now();
    body();
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    transferSeconds += seconds;
    exposedSeconds += seconds;
  }

  Communicator &communicator;
  std::vector<Stream> streams;
  std::vector<Event> events;
};

} // namespace

std::unique_ptr<HostStreams> makeInlineStreams(Communicator &communicator) {
  return std::make_unique<InlineStreams>(communicator);
}

} // namespace fsdp
