#ifndef FSDP_RUNTIME_COMM_RANKPROGRESS_H
#define FSDP_RUNTIME_COMM_RANKPROGRESS_H

#include "comm/Communicator.h"

#include <array>
#include <atomic>
#include <exception>

namespace fsdp {

/// How far a rank is. Its threads write it, and another one may read it at any
/// time, so that others can be told.
class RankProgress {
public:
  using Clock = Communicator::Clock;

  struct Channel {
    /// Transfers started, and which of them finish() waits for; 0: none.
    std::atomic<uint64_t> started{0}, awaited{0};
    /// Of the one started last, and of the one awaited.
    std::atomic<const char *> startedName{""}, awaitedName{""};
    /// When the last was started; when waiting began, where it is awaited.
    std::atomic<Clock::rep> startedAt{0}, awaitedSince{0};
  };

  void start(unsigned channel, const char *name) {
    Channel &c = channels[channel];
    c.startedName.store(name, relaxed);
    c.startedAt.store(now(), relaxed);
    c.started.fetch_add(1, relaxed);
  }
  void await(unsigned channel, uint64_t number, const char *name) {
    Channel &c = channels[channel];
    c.awaitedName.store(name, relaxed);
    c.awaitedSince.store(now(), relaxed);
    c.awaited.store(number, relaxed);
  }
  void arrive(unsigned channel) { channels[channel].awaited.store(0, relaxed); }

  std::array<Channel, numChannels> channels;
  /// The step that runs, from 1; 0: none yet.
  std::atomic<uint64_t> step{0};

private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  static Clock::rep now() { return Clock::now().time_since_epoch().count(); }
};

/// A finish() that waits, as long as this lives; one that fails stays to be
/// seen.
class Awaiting {
public:
  Awaiting(RankProgress &progress, unsigned channel, uint64_t number,
           const char *name)
      : progress(progress), channel(channel) {
    progress.await(channel, number, name);
  }
  ~Awaiting() {
    if (!std::uncaught_exceptions())
      progress.arrive(channel);
  }
  Awaiting(const Awaiting &) = delete;
  Awaiting &operator=(const Awaiting &) = delete;

private:
  RankProgress &progress;
  unsigned channel;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_RANKPROGRESS_H
