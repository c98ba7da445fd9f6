#include "executor/HostStreams.h"

#include "plan/Collectives.h"

#include <deque>
#include <functional>
#include <vector>

namespace fsdp {

namespace {

/// Bytes that a transfer reads or writes.
struct Bytes {
  const char *begin;
  size_t size;

  bool overlaps(const Bytes &other) const {
    return std::less<>()(begin, other.begin + other.size) &&
           std::less<>()(other.begin, begin + size);
  }
};

/// The memory of a transfer among `ranks` ranks.
struct TransferMemory {
  TransferMemory(const Transfer &transfer, size_t ranks) {
    size_t one = transfer.count * plan::dtypeBytes(transfer.dtype);
    const plan::CollectiveInfo &info = plan::infoOf(transfer.kind);
    read = {static_cast<const char *>(transfer.source),
            one * info.piecesSent(ranks)};
    written = {static_cast<const char *>(transfer.destination),
               one * info.piecesReceived(ranks)};
  }
  /// Whether the later of two must wait until the earlier is over.
  bool dependsOn(const TransferMemory &earlier) const {
    return read.overlaps(earlier.written) ||
           written.overlaps(earlier.written) || written.overlaps(earlier.read);
  }

  Bytes read, written;
};

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
    launch(stream, {Task::Transfer, transfer, nullptr, {}, current()});
  }

  void copy(unsigned stream, const std::vector<CopyPiece> &pieces) override {
    launch(stream, {Task::Copy, {}, &pieces, {}, current()});
  }

  void record(unsigned stream, unsigned event) override {
    events.at(event) = {stream, at(stream).launched};
  }

  void wait(unsigned stream, unsigned event) override {
    const Point &recorded = events.at(event);
    if (recorded.stream != stream && !isDone(recorded))
      launch(stream, {Task::Wait, {}, nullptr, recorded, current()});
  }

  void end() override {
    for (size_t s = 0; s < streams.size(); ++s)
      complete({static_cast<unsigned>(s), streams[s].launched});
  }

  void abandon(const std::string &why) override { communicator.leave(why); }

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
    uint32_t command;
    uint64_t ticket = 0;
    Clock::time_point begin{}; // of a transfer
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
      if (task.kind == Task::Transfer) {
        if (finishEarlier(s))
          continue;
        start(task);
      } else if (!isFree)
        return;
      else if (isFirst) {
        finishFirst(s);
        continue;
      }
      task.started = true;
      ++stream.started;
    }
  }

  /// A stream promises that a command finds what those before it on the stream
  /// have left. So where the transfer that starts next uses memory of one that
  /// is under way, this finishes the tasks up to that one; false where there
  /// is none. That follows from the program alone, and is alike on all ranks.
  bool finishEarlier(unsigned s) {
    Stream &stream = at(s);
    TransferMemory next = memoryOf(stream.tasks[stream.started].transfer);
    size_t count = 0;
    for (size_t i = 0; i < stream.started; ++i)
      if (stream.tasks[i].kind == Task::Transfer &&
          next.dependsOn(memoryOf(stream.tasks[i].transfer)))
        count = i + 1;
    for (size_t i = 0; i < count; ++i)
      finishFirst(s);
    return count != 0;
  }
  TransferMemory memoryOf(const Transfer &transfer) const {
    return {transfer, communicator.groupOf(transfer).size};
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
      finish(s, task);
      break;
    case Task::Copy:
      copyNow(s, task);
      break;
    case Task::Wait:
      complete(task.point);
      break;
    }
    ++at(s).done;
  }

  void start(Task &task) {
    task.begin = Clock::now();
    task.ticket = communicator.start(task.transfer);
    keptSince(task.begin, trace::Span::Start, task.command);
  }

  void finish(unsigned s, const Task &task) {
    auto begin = Clock::now();
    communicator.finish(task.ticket);
    ran(s, task.command, task.begin,
        keptSince(begin, trace::Span::Wait, task.command));
  }

  /// A transfer had the thread from `begin` to now, which it gives.
  Clock::time_point keptSince(Clock::time_point begin, trace::Span::Kind kind,
                              uint32_t command) {
    auto end = Clock::now();
    spent.transfer += std::chrono::duration<double>(end - begin).count();
    expose(kind, command, begin, end);
    return end;
  }

  void copyNow(unsigned s, const Task &task) {
    if (!recorder)
      return carryOut(*task.pieces);
    auto begin = Clock::now();
    carryOut(*task.pieces);
    ran(s, task.command, begin, Clock::now());
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
