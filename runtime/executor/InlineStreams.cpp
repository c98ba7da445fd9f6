#include "executor/HostStreams.h"

#include <chrono>
#include <deque>
#include <vector>

namespace fsdp {

namespace {

/// What a stream does next depends on the program alone, never on time, so all
/// ranks start their transfers in the same order.
class InlineStreams final : public HostStreams {
public:
  explicit InlineStreams(Communicator &communicator)
      : communicator(communicator) {}

  void begin(size_t count) override {
    events.assign(count, {});
    streams.clear();
  }

  void transfer(unsigned stream, const Transfer &transfer,
                const std::string &) override {
    launch(stream, {Task::Transfer, transfer, nullptr, {}});
  }

  void copy(unsigned stream, const std::vector<CopyPiece> &pieces) override {
    launch(stream, {Task::Copy, {}, &pieces, {}});
  }

  void record(unsigned stream, unsigned event) override {
    events.at(event) = {stream, at(stream).launched};
  }

  void wait(unsigned stream, unsigned event) override {
    const Point &recorded = events.at(event);
    if (recorded.stream != stream && !isDone(recorded))
      launch(stream, {Task::Wait, {}, nullptr, recorded});
  }

  void end() override {
    for (size_t s = 0; s < streams.size(); ++s)
      complete({static_cast<unsigned>(s), streams[s].launched});
  }

  void abandon(const std::string &) override {}

private:
  /// Behind the first `tasks` tasks of a stream.
  struct Point {
    unsigned stream = 0;
    uint64_t tasks = 0;
  };
  struct Task {
    enum Kind { Transfer, Copy, Wait } kind;
    fsdp::Transfer transfer;
    const std::vector<CopyPiece> *pieces;
    Point point;
    uint64_t ticket = 0;
    bool started = false;
  };
  struct Stream {
    uint64_t launched = 0, done = 0;
    std::deque<Task> tasks; // not yet done
    size_t started = 0;     // of them: transfers, and waits that are over
  };

  Stream &at(unsigned stream) {
    if (stream >= streams.size())
      streams.resize(stream + 1);
    return streams[stream];
  }
  bool isDone(const Point &point) {
    return at(point.stream).done >= point.tasks;
  }

  void launch(unsigned s, Task task) {
    at(s).tasks.push_back(std::move(task));
    ++at(s).launched;
    if (s == plan::computeStream)
      complete({s, at(s).launched});
    else
      advance(s);
  }

  /// Does what needs no other rank: starts transfers, and where none is under
  /// way copies, and waits for what is done.
  void advance(unsigned s) {
    for (Stream &stream = at(s); stream.started < stream.tasks.size();) {
      Task &task = stream.tasks[stream.started];
      bool isFirst = stream.started == 0;
      bool isFree = task.kind == Task::Wait ? isDone(task.point) : isFirst;
      if (task.kind == Task::Transfer)
        start(task);
      else if (!isFree)
        return;
      else if (isFirst) {
        finishFirst(s);
        continue;
      }
      task.started = true;
      ++stream.started;
    }
  }

  void complete(Point point) {
    while (!isDone(point))
      finishFirst(point.stream);
    advance(point.stream);
  }

  void finishFirst(unsigned s) {
    Task task = std::move(at(s).tasks.front());
    at(s).tasks.pop_front();
    if (task.started)
      --at(s).started;
    switch (task.kind) {
    case Task::Transfer:
      if (!task.started)
        start(task);
      timed([&] { communicator.finish(task.ticket); });
      break;
    case Task::Copy:
      carryOut(*task.pieces);
      break;
    case Task::Wait:
      complete(task.point);
      break;
    }
    ++at(s).done;
  }

  void start(Task &task) {
    timed([&] { task.ticket = communicator.start(task.transfer); });
  }

  template <typename Body> void timed(Body &&body) {
    auto begin = std::chrono::steady_clock::now();
    body();
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    spent.transfer += seconds;
    spent.exposed += seconds;
  }

  Communicator &communicator;
  std::vector<Stream> streams;
  std::vector<Point> events;
};

} // namespace

std::unique_ptr<Streams> makeInlineStreams(Communicator &communicator) {
  return std::make_unique<InlineStreams>(communicator);
}

} // namespace fsdp
