#include "comm/ThrottledCommunicator.h"

#include <algorithm>
#include <array>
#include <deque>
#include <sstream>
#include <thread>

namespace fsdp {

namespace {

/// How late a sleep may end; the rest is waited for awake.
constexpr auto oversleep = std::chrono::microseconds(80);

class ThrottledCommunicator : public Communicator {
public:
  ThrottledCommunicator(std::unique_ptr<Communicator> inner, Wire wire)
      : inner(std::move(inner)), wire(wire) {}

  int rank() const override { return inner->rank(); }
  int size() const override { return inner->size(); }
  std::string transport() const override {
    std::ostringstream text;
    text << inner->transport() << ", throttled to " << wire.bytesPerSecond / 1e9
         << " GB/s and " << wire.latencySeconds * 1e6 << " us";
    return text.str();
  }
  std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout) override {
    return inner->allocate(layout);
  }
  void abort(const std::string &reason) override { inner->abort(reason); }

  uint64_t start(const Transfer &transfer) override {
    uint64_t ticket = inner->start(transfer);
    channels[transfer.channel].inFlight.push_back(
        {ticket, timeOnWire(transfer)});
    return ticket;
  }

  void finish(uint64_t ticket) override {
    inner->finish(ticket);
    Clock::time_point started = inner->startedByAll(ticket);
    Channel &channel = channelOf(ticket);
    channel.free =
        std::max(channel.free, started) + channel.inFlight.front().duration;
    channel.inFlight.pop_front();
    std::this_thread::sleep_until(channel.free - oversleep);
    while (Clock::now() < channel.free)
      std::this_thread::yield();
  }

private:
  struct InFlight {
    uint64_t ticket;
    Clock::duration duration;
  };
  struct Channel {
    std::deque<InFlight> inFlight;
    Clock::time_point free; // when its last transfer is over
  };

  Clock::duration timeOnWire(const Transfer &transfer) const {
    double bytes = transfer.count * plan::dtypeBytes(transfer.dtype);
    // What a rank sends; an all-reduce is a reduce-scatter and an all-gather.
    double sent = transfer.kind == plan::CollectiveKind::AllReduce
                      ? 2 * bytes * (size() - 1) / size()
                      : bytes * (size() - 1);
    std::chrono::duration<double> seconds(wire.latencySeconds +
                                          sent / wire.bytesPerSecond);
    return std::chrono::duration_cast<Clock::duration>(seconds);
  }
  /// Finishes come in the order of starts on each channel.
  Channel &channelOf(uint64_t ticket) {
    return *std::find_if(channels.begin(), channels.end(),
                         [&](const Channel &channel) {
                           return !channel.inFlight.empty() &&
                                  channel.inFlight.front().ticket == ticket;
                         });
  }

  std::unique_ptr<Communicator> inner;
  Wire wire;
  std::array<Channel, numChannels> channels;
};

} // namespace

std::unique_ptr<Communicator>
createThrottledCommunicator(std::unique_ptr<Communicator> inner, Wire wire) {
  return std::make_unique<ThrottledCommunicator>(std::move(inner), wire);
}

} // namespace fsdp
