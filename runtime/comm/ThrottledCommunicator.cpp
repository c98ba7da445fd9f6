#include "comm/ThrottledCommunicator.h"

#include "cost/Cost.h"

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
  ThrottledCommunicator(std::unique_ptr<Communicator> inner, cost::Link link,
                        std::shared_ptr<WireClock> clock)
      : inner(std::move(inner)), clock(std::move(clock)) {
    cluster.ranksPerNode = size(); // one node
    cluster.intraNode = link;
  }

  int rank() const override { return inner->rank(); }
  int size() const override { return inner->size(); }
  std::string transport() const override {
    std::ostringstream text;
    text << inner->transport() << ", throttled to "
         << cluster.intraNode.bandwidth / 1e9 << " GB/s and "
         << cluster.intraNode.latency * 1e6 << " us";
    return text.str();
  }
  std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout) override {
    return inner->allocate(layout);
  }
  void leave(const std::string &why) override { inner->leave(why); }
  RankWatch *watch() override { return inner->watch(); }
  void check() override { inner->check(); }

  uint64_t start(const Transfer &transfer) override {
    Clock::time_point now = clock->now();
    uint64_t ticket = inner->start(transfer);
    channels[transfer.channel].inFlight.push_back({now, timeOnWire(transfer)});
    return ticket;
  }

  void finish(uint64_t ticket) override {
    inner->finish(ticket);
    Channel &channel = channels[channelOf(ticket)];
    InFlight &flight = channel.inFlight.front();
    Clock::time_point begin =
        inner->startedByAll(ticket).value_or(flight.started);
    channel.free = std::max(channel.free, begin) + flight.duration;
    channel.inFlight.pop_front();
    clock->sleepUntil(channel.free);
  }

private:
  struct InFlight {
    Clock::time_point started; // by this rank
    Clock::duration duration;
  };
  struct Channel {
    std::deque<InFlight> inFlight;
    Clock::time_point free; // when its last transfer is over
  };

  Clock::duration timeOnWire(const Transfer &transfer) const {
    unsigned ranks = groupOf(transfer).size;
    double bytes = transfer.count * plan::dtypeBytes(transfer.dtype);
    if (transfer.kind != plan::CollectiveKind::AllReduce)
      bytes *= ranks;
    std::chrono::duration<double> seconds(
        cost::collectiveSeconds(transfer.kind, bytes, ranks, cluster));
    return std::chrono::round<Clock::duration>(seconds);
  }

  std::unique_ptr<Communicator> inner;
  std::shared_ptr<WireClock> clock;
  cost::Cluster cluster;
  std::array<Channel, numChannels> channels;
};

} // namespace

Communicator::Clock::time_point WireClock::now() const {
  return Communicator::Clock::now();
}

void WireClock::sleepUntil(Communicator::Clock::time_point time) {
  std::this_thread::sleep_until(time - oversleep);
  while (now() < time)
    std::this_thread::yield();
}

std::unique_ptr<Communicator>
createThrottledCommunicator(std::unique_ptr<Communicator> inner,
                            cost::Link link, std::shared_ptr<WireClock> clock) {
  return std::make_unique<ThrottledCommunicator>(std::move(inner), link,
                                                 std::move(clock));
}

} // namespace fsdp
