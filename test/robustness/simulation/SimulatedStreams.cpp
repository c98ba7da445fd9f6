#include "SimulatedRank.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>

namespace fsdp::test {

namespace {

/// Rows of a copy that are still to be moved.
struct Rows {
  CopyPiece piece;
  uint64_t begin, end;

  char *to(uint64_t row) const { return piece.to + row * piece.toStride; }
  void move() const {
    for (uint64_t row = begin; row < end; ++row)
      if (piece.from)
        std::memcpy(to(row), piece.from + row * piece.fromStride,
                    piece.rowBytes);
      else
        std::memset(to(row), 0, piece.rowBytes);
  }
  void spoil() const {
    for (uint64_t row = begin; row < end; ++row)
      std::memset(to(row), 0xff, piece.rowBytes);
  }
};

/// A stream beside the compute stream: it does one command after the other, a
/// bit of one at each of its turns.
class SideStream final : public Activity {
public:
  struct Task {
    enum Kind { Transfer, Copy, Record, Wait } kind;
    fsdp::Transfer transfer;
    const std::vector<CopyPiece> *pieces;
    unsigned event;
  };

  SideStream(SimulatedRanks &ranks, SimulatedCommunicator &communicator,
             std::vector<bool> &recorded)
      : ranks(ranks), communicator(communicator), recorded(recorded) {
    ranks.scheduler.add(*this);
  }
  ~SideStream() override { ranks.scheduler.drop(*this); }

  void launch(const Task &task) { tasks.push_back(task); }
  bool isOver() const { return tasks.empty(); }
  void clear() { tasks.clear(); }
  void rethrow() const {
    if (failure)
      std::rethrow_exception(failure);
  }
  bool hasFailed() const { return failure != nullptr; }

  bool canGoOn() const override {
    if (tasks.empty() || ranks.transfers.hasFailed() || failure)
      return false;
    const Task &task = tasks.front();
    if (task.kind == Task::Wait)
      return recorded.at(task.event);
    return task.kind != Task::Transfer || !ticket ||
           ranks.transfers.isOver(communicator.rank(), *ticket);
  }

  void goOn(Random &random) override {
    try {
      if (perform(tasks.front(), random))
        tasks.pop_front();
    } catch (...) {
      failure = std::current_exception();
    }
  }

private:
  /// Returns whether the task is over.
  bool perform(const Task &task, Random &random) {
    switch (task.kind) {
    case Task::Transfer:
      if (!ticket) {
        ticket = communicator.launch(task.transfer);
        return false;
      }
      ranks.transfers.forget(communicator.rank(), *ticket);
      ticket.reset();
      return true;
    case Task::Copy:
      return copy(*task.pieces, random);
    case Task::Record:
      recorded.at(task.event) = true;
      return true;
    case Task::Wait:
      return true;
    }
    return true;
  }

  /// Pieces in any order, and until one is there it may be anything.
  bool copy(const std::vector<CopyPiece> &pieces, Random &random) {
    if (!copies) {
      copies = true;
      for (const CopyPiece &piece : pieces) {
        uint64_t middle = random() % (piece.rows + 1);
        Rows{piece, 0, piece.rows}.spoil();
        rows.push_back({piece, 0, middle});
        rows.push_back({piece, middle, piece.rows});
      }
      return false;
    }
    if (!rows.empty()) {
      std::swap(rows[random() % rows.size()], rows.back());
      rows.back().move();
      rows.pop_back();
      return false;
    }
    copies = false;
    return true;
  }

  SimulatedRanks &ranks;
  SimulatedCommunicator &communicator;
  std::vector<bool> &recorded; // by event
  std::deque<Task> tasks;
  std::optional<uint64_t> ticket; // of the first task
  bool copies = false;            // the first task
  std::vector<Rows> rows;         // of it
  std::exception_ptr failure;
};

class SimulatedStreams final : public Streams {
public:
  SimulatedStreams(SimulatedRanks &ranks, SimulatedCommunicator &communicator)
      : ranks(ranks), communicator(communicator), rank(communicator.rank()) {}

  void begin(size_t events) override { recorded.assign(events, false); }

  void transfer(unsigned stream, const Transfer &transfer,
                const std::string &) override {
    if (stream == plan::computeStream)
      return communicator.finish(communicator.start(transfer));
    launch(stream, {SideStream::Task::Transfer, transfer, nullptr, 0});
  }
  void copy(unsigned stream, const std::vector<CopyPiece> &pieces) override {
    if (stream != plan::computeStream)
      return launch(stream, {SideStream::Task::Copy, {}, &pieces, 0});
    ranks.offer(rank);
    for (const CopyPiece &piece : pieces)
      Rows{piece, 0, piece.rows}.move();
  }
  void record(unsigned stream, unsigned event) override {
    if (stream != plan::computeStream)
      return launch(stream, {SideStream::Task::Record, {}, nullptr, event});
    ranks.offer(rank);
    recorded.at(event) = true;
  }
  void wait(unsigned stream, unsigned event) override {
    if (stream != plan::computeStream)
      return launch(stream, {SideStream::Task::Wait, {}, nullptr, event});
    await([&] { return recorded.at(event); });
  }
  void end() override {
    await([&] {
      return std::all_of(side.begin(), side.end(), [](const auto &stream) {
        return !stream || stream->isOver();
      });
    });
  }
  void abandon(const std::string &) override { side.clear(); }

  uint64_t mark() override { return 0; }
  void await(uint64_t) override {}
  void setRecorder(trace::Recorder *) override {}
  void runRecorded(const std::function<void()> &launch) override { launch(); }
  std::optional<Times> times() const override { return std::nullopt; }

private:
  void launch(unsigned stream, const SideStream::Task &task) {
    ranks.offer(rank);
    if (stream >= side.size())
      side.resize(stream + 1);
    if (!side[stream])
      side[stream] =
          std::make_unique<SideStream>(ranks, communicator, recorded);
    side[stream]->launch(task);
  }
  void await(const std::function<bool()> &ready) {
    auto hasFailed = [&] {
      return std::any_of(side.begin(), side.end(), [](const auto &stream) {
        return stream && stream->hasFailed();
      });
    };
    ranks.await(rank, [&] { return hasFailed() || ready(); });
    for (const auto &stream : side)
      if (stream)
        stream->rethrow();
  }

  SimulatedRanks &ranks;
  SimulatedCommunicator &communicator;
  int rank;
  std::vector<bool> recorded; // by event
  std::vector<std::unique_ptr<SideStream>> side;
};

} // namespace

std::unique_ptr<Streams>
makeSimulatedStreams(SimulatedRanks &ranks,
                     SimulatedCommunicator &communicator) {
  return std::make_unique<SimulatedStreams>(ranks, communicator);
}

} // namespace fsdp::test
