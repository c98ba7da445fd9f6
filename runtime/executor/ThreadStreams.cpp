#include "executor/HostStreams.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace fsdp {

namespace {

class ThreadStreams final : public HostStreams {
public:
  explicit ThreadStreams(Communicator &communicator)
      : communicator(communicator) {}

  ~ThreadStreams() override { stop(); }

  void begin(size_t events) override {
    recorded.assign(events, false); // nothing runs
  }

  void transfer(unsigned stream, const Transfer &transfer,
                const std::string &) override {
    uint64_t number = launched++;
    uint32_t command = current();
    if (stream == plan::computeStream) {
      auto begin = Clock::now();
      std::unique_lock<std::mutex> lock(mutex);
      perform({Task::Transfer, transfer, number, command, 0, nullptr}, stream,
              lock);
      expose(trace::Span::Wait, command, begin, Clock::now());
    } else {
      launch(stream, {Task::Transfer, transfer, number, command, 0, nullptr});
    }
  }

  void copy(unsigned stream, const std::vector<CopyPiece> &pieces) override {
    if (stream == plan::computeStream)
      copyNow(pieces, stream, current());
    else
      launch(stream, {Task::Copy, {}, 0, current(), 0, &pieces});
  }

  void record(unsigned stream, unsigned event) override {
    if (stream != plan::computeStream)
      return launch(stream, {Task::Record, {}, 0, 0, event, nullptr});
    std::lock_guard<std::mutex> lock(mutex);
    recorded.at(event) = true;
    changed.notify_all();
  }

  void wait(unsigned stream, unsigned event) override {
    if (stream != plan::computeStream)
      return launch(stream, {Task::Wait, {}, 0, 0, event, nullptr});
    block([&] { return recorded.at(event); });
  }

  void end() override {
    block([&] { return busy == 0; });
  }

  void abandon(const std::string &why) override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (!failure)
        failure = std::make_exception_ptr(PeerFailure(why));
      changed.notify_all();
    }
    // Wakes the threads that are in a transfer.
    communicator.leave(why);
    stop();
  }

private:
  struct Task {
    enum Kind { Transfer, Copy, Record, Wait } kind;
    fsdp::Transfer transfer;
    uint64_t number; // of a transfer, in the order of launches
    uint32_t command;
    unsigned event;
    const std::vector<CopyPiece> *pieces;
  };
  struct Stream {
    std::deque<Task> tasks;
    std::thread thread;
  };

  void launch(unsigned s, const Task &task) {
    std::lock_guard<std::mutex> lock(mutex);
    Stream &stream = streams[s];
    stream.tasks.push_back(task);
    ++busy;
    if (!stream.thread.joinable())
      stream.thread = std::thread([this, s, &stream] { serve(s, stream); });
    changed.notify_all();
  }

  /// The calling thread waits until `ready`.
  template <typename Ready> void block(Ready &&ready) {
    std::unique_lock<std::mutex> lock(mutex);
    if (!ready()) {
      auto begin = Clock::now();
      changed.wait(lock, [&] { return ready() || failure; });
      expose(trace::Span::Wait, trace::nothing, begin, Clock::now());
    }
    if (failure)
      std::rethrow_exception(failure);
  }

  /// Waits, under `lock`, for what a stream's thread needs; throws when the
  /// rank has failed.
  template <typename Ready>
  void await(std::unique_lock<std::mutex> &lock, Ready &&ready) {
    changed.wait(lock, [&] { return ready() || failure; });
    if (failure)
      std::rethrow_exception(failure);
  }

  void perform(const Task &task, unsigned stream,
               std::unique_lock<std::mutex> &lock) {
    await(lock, [&] { return started == task.number; });
    lock.unlock();
    auto begin = Clock::now();
    uint64_t ticket = communicator.start(task.transfer);
    lock.lock();
    ++started;
    changed.notify_all();
    lock.unlock();
    communicator.finish(ticket);
    lock.lock();
    auto end = Clock::now();
    spent.transfer += std::chrono::duration<double>(end - begin).count();
    ran(stream, task.command, begin, end);
  }

  void copyNow(const std::vector<CopyPiece> &pieces, unsigned stream,
               uint32_t command) {
    auto begin = Clock::now();
    carryOut(pieces);
    ran(stream, command, begin, Clock::now());
  }

  void serve(unsigned s, Stream &stream) {
    std::unique_lock<std::mutex> lock(mutex);
    try {
      while (true) {
        changed.wait(lock, [&] { return !stream.tasks.empty() || stopping; });
        if (stream.tasks.empty())
          return;
        Task task = stream.tasks.front();
        stream.tasks.pop_front();
        switch (task.kind) {
        case Task::Transfer:
          perform(task, s, lock);
          break;
        case Task::Copy:
          lock.unlock();
          copyNow(*task.pieces, s, task.command);
          lock.lock();
          break;
        case Task::Record:
          recorded.at(task.event) = true;
          break;
        case Task::Wait:
          await(lock, [&] { return recorded.at(task.event); });
          break;
        }
        --busy;
        changed.notify_all();
      }
    } catch (...) {
      if (!lock.owns_lock())
        lock.lock();
      if (!failure)
        failure = std::current_exception();
      changed.notify_all();
    }
  }

  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
      changed.notify_all();
    }
    for (auto &[number, stream] : streams)
      if (stream.thread.joinable())
        stream.thread.join();
  }

  Communicator &communicator;
  uint64_t launched = 0; // transfers, by the calling thread

  std::mutex mutex; // of all below
  std::condition_variable changed;
  std::map<unsigned, Stream> streams;
  std::vector<bool> recorded; // by event
  uint64_t started = 0;       // transfers
  size_t busy = 0;            // tasks not yet done
  std::exception_ptr failure;
  bool stopping = false;
};

} // namespace

std::unique_ptr<Streams> makeThreadStreams(Communicator &communicator) {
  return std::make_unique<ThreadStreams>(communicator);
}

} // namespace fsdp
