#ifndef FSDP_RUNTIME_COMM_THROTTLEDCOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_THROTTLEDCOMMUNICATOR_H

#include "comm/Communicator.h"
#include "cost/Cluster.h"

#include <memory>

namespace fsdp {

/// Time as it passes on the wire; tests have their own.
class WireClock {
public:
  virtual ~WireClock() = default;
  virtual Communicator::Clock::time_point now() const;
  /// Leaves the CPU to others, but for the last moment, for the sake of
  /// precision.
  virtual void sleepUntil(Communicator::Clock::time_point time);
};

/// Another communicator's results, as late as over `link`, from each rank to
/// the next: exactly when the cost model says for a ring of one node. With N
/// ranks, a transfer whose whole buffer has B bytes is on the wire for
///
///     (N - 1) * latency + B * (N - 1) / N / bandwidth
///
/// and an all-reduce for twice that. It begins when the last rank has started
/// it and the transfer before it on its channel is over; channels do not slow
/// each other, as if each had a link of its own. Nobody works meanwhile:
/// finish() has `inner` move the bytes and sleeps for what is left, so a
/// transfer that takes `inner` longer is late by the difference. Where `inner`
/// cannot tell when the last rank started, a transfer begins when this rank
/// does.
std::unique_ptr<Communicator> createThrottledCommunicator(
    std::unique_ptr<Communicator> inner, cost::Link link,
    std::shared_ptr<WireClock> clock = std::make_shared<WireClock>());

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_THROTTLEDCOMMUNICATOR_H
