#include "executor/DeviceStreams.h"

#include "Error.h"
#include "comm/LongWait.h"

#include <chrono>
#include <map>
#include <thread>
#include <vector>

namespace fsdp {

namespace {

using Clock = std::chrono::steady_clock;

class DeviceStreams final : public Streams {
public:
  DeviceStreams(Device &device, DeviceCommunicator &communicator,
                unsigned streams, unsigned events)
      : device(device), communicator(communicator), streams(streams),
        firstJoin(events), numEvents(events + streams) {}

  // What still runs reads and writes memory that is about to go.
  ~DeviceStreams() override {
    try {
      device.drain();
    } catch (const std::exception &) {
      // It has been reported where it happened.
    }
  }

  // What the streams did before is behind stream 0: they wait for it, which
  // also makes them part of a capture.
  void begin(size_t) override {
    ++runs;
    flights.clear();
    isRecording = false; // a run that has failed
    if (recorder)
      beginRecording();
    device.record(plan::computeStream, firstJoin);
    for (unsigned s = 1; s < streams; ++s)
      device.wait(s, firstJoin);
  }

  void end() override {
    timed(trace::Span::Wait, plan::computeStream, trace::nothing, [&] {
      for (unsigned s = 1; s < streams; ++s) {
        device.record(s, firstJoin + s);
        device.wait(plan::computeStream, firstJoin + s);
      }
    });
    if (isRecording)
      endRecording();
  }

  void transfer(unsigned stream, const Transfer &transfer,
                const std::string &name) override {
    // Launching may wait for the other ranks, which count this one then.
    if (RankWatch *watch = communicator.watch()) {
      watch->progress().start(transfer.channel, transfer.name);
      last = {transfer.name, transfer.channel,
              watch->progress().channels[transfer.channel].started,
              transfer.groupOf(watch->worldSize())};
    }
    timed(trace::Span::Command, stream, current(),
          [&] { communicator.launch(transfer, stream); });
    flights.push_back({stream, &name, std::nullopt, last});
  }

  void copy(unsigned stream, const std::vector<CopyPiece> &pieces) override {
    timed(trace::Span::Command, stream, current(), [&] {
      for (const CopyPiece &piece : pieces)
        if (piece.from)
          device.copyRows(stream, piece.to, piece.toStride, piece.from,
                          piece.fromStride, piece.rowBytes, piece.rows);
        else
          device.fillRows(stream, piece.to, piece.toStride, 0, piece.rowBytes,
                          piece.rows);
    });
  }

  void record(unsigned stream, unsigned event) override {
    device.record(stream, event);
    for (auto flight = flights.rbegin(); flight != flights.rend(); ++flight)
      if (flight->stream == stream) {
        if (!flight->over)
          flight->over = event;
        break;
      }
  }
  void wait(unsigned stream, unsigned event) override {
    auto wait = [&] { device.wait(stream, event); };
    if (stream == plan::computeStream)
      timed(trace::Span::Wait, stream, trace::nothing, wait);
    else
      wait(); // its next command begins behind it
  }

  void abandon(const std::string &) override { communicator.abort(); }

  uint64_t mark() override {
    unsigned event = numEvents;
    if (free.empty()) {
      ++numEvents;
    } else {
      event = free.back();
      free.pop_back();
    }
    device.record(plan::computeStream, event);
    marks[event] = {runs, last};
    return event;
  }

  // The host asks, so that a collective whose partner is gone is noticed: it
  // would never end; and looks from time to time who has not come.
  void await(uint64_t mark) override {
    auto event = static_cast<unsigned>(mark);
    LongWait wait;
    for (unsigned asked = 0; !device.isOver(event); ++asked) {
      checkTransfers();
      if (asked >= spins && communicator.watch())
        wait.look(*communicator.watch(),
                  [&] { return oldestBefore(marks.at(event)); });
      if (asked < spins)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    free.push_back(event);
  }

  std::optional<Times> times() const override { return std::nullopt; }
  void setRecorder(trace::Recorder *to) override { recorder = to; }
  void runRecorded(const std::function<void()> &launch) override {
    timed(trace::Span::Command, plan::computeStream, current(), launch);
  }

private:
  /// What a stream did between two marks of its time.
  struct TimedSpan {
    trace::Span::Kind kind;
    uint32_t stream, command, reached;
    size_t begin, end;
  };

  /// Marks are taken when nothing runs, some after each other: the host knows
  /// each but for how long it waits for it, and takes the one that it knows
  /// best for the beginning.
  void beginRecording() {
    constexpr auto close = std::chrono::microseconds(20);
    constexpr int tries = 100;
    await(mark());
    device.takeTimes(); // of a run that has failed
    Clock::duration least = Clock::duration::max();
    for (int i = 0; i < tries && least > close; ++i) {
      Clock::time_point before = Clock::now();
      size_t known = device.markTime(plan::computeStream);
      await(mark());
      Clock::duration waited = Clock::now() - before;
      if (waited >= least)
        continue;
      least = waited;
      first = known;
      recordedSince = before + waited / 2;
    }
    spans.clear();
    recorder->beginAt(recordedSince, least / 2);
    isRecording = true;
  }

  void endRecording() {
    isRecording = false;
    await(mark());
    std::vector<int64_t> times = device.takeTimes();
    auto at = [&](size_t mark) {
      return recordedSince +
             std::chrono::nanoseconds(times.at(mark) - times.at(first));
    };
    for (const TimedSpan &span : spans)
      recorder->add(span.kind, span.stream, span.command, span.reached,
                    at(span.begin), at(span.end));
  }

  /// The command that the program has come to; any where nobody records.
  uint32_t current() const { return recorder ? recorder->current() : 0; }

  /// Does what launches something on a stream, and takes its time there.
  template <typename Launch>
  void timed(trace::Span::Kind kind, unsigned stream, uint32_t command,
             Launch launch) {
    if (!isRecording)
      return launch();
    size_t begin = device.markTime(stream);
    launch();
    spans.push_back({kind, stream, command, recorder->current(), begin,
                     device.markTime(stream)});
  }

  /// A transfer of the newest run, and the event that its stream recorded next.
  struct Flight {
    unsigned stream;
    const std::string *name;
    std::optional<unsigned> over;
    AwaitedTransfer awaited; // where ranks watch each other
  };

  /// A run that a mark stands behind, and the last transfer before it.
  struct Mark {
    uint64_t run = 0;
    AwaitedTransfer last;
  };

  /// The first transfer before a mark that is not over. Of runs before the
  /// newest, and of graphs, none is known.
  AwaitedTransfer oldestBefore(const Mark &mark) {
    AwaitedTransfer some = mark.last;
    if (!some.number)
      return some;
    some.name = "a collective that a GPU was given";
    try {
      for (const Flight &flight : flights)
        if (mark.run == runs && (!flight.over || !device.isOver(*flight.over)))
          return flight.awaited;
    } catch (const Error &) {
      // An event of a graph says nothing.
    }
    return some;
  }

  /// Throws what went wrong, and names the transfer that is not over.
  void checkTransfers() {
    try {
      communicator.check();
    } catch (const PeerFailure &failure) {
      throw PeerFailure(failure.what() + oldestUnderWay(), failure.kind);
    } catch (const std::exception &failure) {
      throw Error(kindOf(failure), failure.what() + oldestUnderWay());
    }
  }

  std::string oldestUnderWay() {
    try {
      for (const Flight &flight : flights)
        if (!flight.over || !device.isOver(*flight.over))
          return "; under way: " + *flight.name;
    } catch (const Error &) {
      // The device says no more; what went wrong first is known.
    }
    return "";
  }

  /// Before the host sleeps between its questions.
  static constexpr unsigned spins = 1000;

  Device &device;
  DeviceCommunicator &communicator;
  unsigned streams;
  // Events: the program's, one for each stream to be joined by, marks.
  unsigned firstJoin, numEvents;
  std::vector<unsigned> free; // marks that nobody awaits
  std::vector<Flight> flights;
  uint64_t runs = 0;
  AwaitedTransfer last = {}; // that was launched; number 0: none
  std::map<unsigned, Mark> marks;

  trace::Recorder *recorder = nullptr;
  bool isRecording = false; // a run, which has begun
  Clock::time_point recordedSince;
  size_t first = 0; // the mark that recordedSince is the time of
  std::vector<TimedSpan> spans;
};

} // namespace

std::unique_ptr<Streams> makeDeviceStreams(Device &device,
                                           DeviceCommunicator &communicator,
                                           unsigned streams, unsigned events) {
  return std::make_unique<DeviceStreams>(device, communicator, streams, events);
}

} // namespace fsdp
