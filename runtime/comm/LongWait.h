#ifndef FSDP_RUNTIME_COMM_LONGWAIT_H
#define FSDP_RUNTIME_COMM_LONGWAIT_H

#include "comm/RankWatch.h"

#include <optional>

namespace fsdp {

/// A wait that may be for another rank, and should not last: people are told
/// when it has lasted for a while, and at the deadline it fails.
class LongWait {
public:
  /// Between looks at the other ranks, and so between useful calls of look().
  static constexpr auto lookAround = std::chrono::milliseconds(250);

  /// `find` gives the transfer that is awaited, once it has lasted long enough
  /// to be of interest; its number is 0 where there is none. Throws PeerFailure
  /// at the deadline.
  template <typename Find> void look(RankWatch &watch, const Find &find) {
    Clock::time_point now = Clock::now();
    if (now < next)
      return;
    next = now + lookAround;
    if (!shown) {
      awaited = find();
      if (!awaited.number)
        return;
      shown.emplace(watch.progress(), awaited.channel, awaited.number,
                    awaited.name);
    }
    auto waited = now - begin;
    if (waited > watch.patience().limit) {
      PeerFailure failure = watch.failure(awaited);
      if (watch.patience().atLimit)
        watch.patience().atLimit(failure.what());
      throw failure;
    }
    if (!told && waited > watch.patience().noteAfter) {
      told = true;
      watch.note(awaited);
    }
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now(), next = begin + lookAround;
  AwaitedTransfer awaited = {};
  std::optional<Awaiting> shown;
  bool told = false;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_LONGWAIT_H
