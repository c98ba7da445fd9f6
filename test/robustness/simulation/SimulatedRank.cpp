#include "SimulatedRank.h"

#include "Error.h"

#include <algorithm>

namespace fsdp::test {

void SimulatedRanks::offer(int rank) {
  if (death && death->rank == rank && scheduler.offers(rank) >= death->offer)
    throw Error(E::PeerFailed, endOfRank);
  scheduler.offer(rank);
  transfers.check();
}

void SimulatedRanks::await(int rank, const std::function<bool()> &ready) {
  offer(rank);
  scheduler.await(rank, [&] { return transfers.hasFailed() || ready(); });
  transfers.check();
}

uint64_t SimulatedCommunicator::launch(const Transfer &transfer) {
  const SharedArena *arena = ranks.arenas[number];
  bool shown = transfer.mapped && arena && arena->mapped() &&
               arena->windowContains(transfer.destination);
  return ranks.transfers.start(number, transfer, shown);
}

void SimulatedCommunicator::finish(uint64_t transfer) {
  ranks.await(number, [&] { return ranks.transfers.isOver(number, transfer); });
  ranks.transfers.forget(number, transfer);
}

std::unique_ptr<ArenaMemory>
SimulatedCommunicator::allocate(const ArenaLayout &layout) {
  if (!ranks.maps)
    return Communicator::allocate(layout);
  auto arena = std::make_unique<SharedArena>(layout, number, size());
  ranks.arenas[number] = arena.get();
  ranks.await(number, [&] {
    return std::all_of(ranks.arenas.begin(), ranks.arenas.end(),
                       [](const SharedArena *one) { return one; });
  });
  std::vector<SharedSegment::Address> addresses;
  for (const SharedArena *one : ranks.arenas)
    addresses.push_back(one->address());
  arena->connect(addresses);
  ++ranks.connected;
  ranks.await(number, [&] { return ranks.connected == ranks.size; });
  arena->closeDescriptors();
  return arena;
}

namespace {

/// The runtime's own streams, with turns between commands.
class OfferingStreams final : public Streams {
public:
  OfferingStreams(SimulatedRanks &ranks, int rank,
                  std::unique_ptr<Streams> inner)
      : ranks(ranks), rank(rank), inner(std::move(inner)) {}

  void begin(size_t events) override { inner->begin(events); }
  void transfer(unsigned stream, const Transfer &transfer,
                const std::string &name) override {
    ranks.offer(rank);
    inner->transfer(stream, transfer, name);
  }
  void copy(unsigned stream, const std::vector<CopyPiece> &pieces) override {
    ranks.offer(rank);
    inner->copy(stream, pieces);
  }
  void record(unsigned stream, unsigned event) override {
    ranks.offer(rank);
    inner->record(stream, event);
  }
  void wait(unsigned stream, unsigned event) override {
    ranks.offer(rank);
    inner->wait(stream, event);
  }
  void end() override { inner->end(); }
  void abandon(const std::string &why) override { inner->abandon(why); }
  uint64_t mark() override { return inner->mark(); }
  void await(uint64_t mark) override { inner->await(mark); }
  void setRecorder(trace::Recorder *recorder) override {
    inner->setRecorder(recorder);
  }
  void runRecorded(const std::function<void()> &launch) override {
    inner->runRecorded(launch);
  }
  std::optional<Times> times() const override { return inner->times(); }

private:
  SimulatedRanks &ranks;
  int rank;
  std::unique_ptr<Streams> inner;
};

} // namespace

std::unique_ptr<Streams> SimulatedBackend::makeStreams(unsigned streams,
                                                       unsigned events) {
  if (execution == Execution::Model)
    return makeSimulatedStreams(ranks, communicator);
  return std::make_unique<OfferingStreams>(ranks, rank(),
                                           host.makeStreams(streams, events));
}

} // namespace fsdp::test
