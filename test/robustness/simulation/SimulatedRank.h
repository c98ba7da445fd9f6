// What a real Executor runs on in a simulation: a rank's communicator, streams
// and memory, all of which wait for turns.
#ifndef FSDP_TEST_SIMULATION_SIMULATEDRANK_H
#define FSDP_TEST_SIMULATION_SIMULATEDRANK_H

#include "SimulatedTransfers.h"
#include "comm/SharedArena.h"
#include "executor/HostBackend.h"

#include <optional>

namespace fsdp::test {

/// How a rank's streams run.
enum class Execution {
  /// As the checker assumes: each stream does its commands in order, as early
  /// or as late as events allow.
  Model,
  /// The runtime's own streams, in the calling thread.
  Inline
};

/// What a rank that dies throws.
inline constexpr const char *endOfRank = "the simulation ends it";

/// A rank that fails at one of its turns.
struct Death {
  int rank;
  uint64_t offer;
};

/// What ranks of one simulation share. Used by whoever has the turn.
struct SimulatedRanks {
  /// `maps`: windows show other ranks' memory; else gathers fill them.
  SimulatedRanks(RankScheduler &scheduler, int size, bool maps,
                 std::optional<Death> death)
      : scheduler(scheduler), transfers(scheduler, size), size(size),
        maps(maps), death(death), arenas(size) {}

  /// A rank may be overtaken, or dies. Throws Error.
  void offer(int rank);
  /// Throws PeerFailure when a rank has failed, Deadlock.
  void await(int rank, const std::function<bool()> &ready);

  RankScheduler &scheduler;
  SimulatedTransfers transfers;
  const int size;
  const bool maps;
  const std::optional<Death> death;
  std::vector<SharedArena *> arenas; // by rank; null: not yet made
  int connected = 0;                 // arenas
};

class SimulatedCommunicator final : public Communicator {
public:
  SimulatedCommunicator(SimulatedRanks &ranks, int rank)
      : ranks(ranks), number(rank) {}

  int rank() const override { return number; }
  int size() const override { return ranks.size; }
  std::string transport() const override { return "a simulation"; }
  uint64_t start(const Transfer &transfer) override {
    ranks.offer(number);
    return launch(transfer);
  }
  void finish(uint64_t transfer) override;
  /// As start(), by whoever has the turn.
  uint64_t launch(const Transfer &transfer);
  /// One for each rank.
  std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout) override;
  void leave(const std::string &why) override { ranks.transfers.fail(why); }

private:
  SimulatedRanks &ranks;
  int number;
};

/// Streams that do what events allow, in any order.
std::unique_ptr<Streams>
makeSimulatedStreams(SimulatedRanks &ranks,
                     SimulatedCommunicator &communicator);

/// A host whose streams are simulated, or offer the turn before each call.
class SimulatedBackend final : public Backend {
public:
  SimulatedBackend(SimulatedRanks &ranks, SimulatedCommunicator &communicator,
                   Execution execution)
      : ranks(ranks), communicator(communicator), execution(execution),
        host(communicator) {}

  int rank() const override { return host.rank(); }
  Kernels &kernels() override { return host.kernels(); }
  bool isHost() const override { return true; }
  std::unique_ptr<ArenaMemory>
  allocateArena(const ArenaLayout &layout) override {
    return host.allocateArena(layout);
  }
  std::unique_ptr<ArenaMemory> allocateHost(uint64_t bytes, uint64_t guard,
                                            bool pinned) override {
    return host.allocateHost(bytes, guard, pinned);
  }
  DeviceMemory allocateScratch(uint64_t bytes) override {
    return host.allocateScratch(bytes);
  }
  std::unique_ptr<Streams> makeStreams(unsigned streams,
                                       unsigned events) override;
  std::string whyNotCaptured() const override { return host.whyNotCaptured(); }
  void beginCapture() override { host.beginCapture(); }
  std::unique_ptr<DeviceGraph> endCapture() override {
    return host.endCapture();
  }

private:
  SimulatedRanks &ranks;
  SimulatedCommunicator &communicator;
  Execution execution;
  HostBackend host;
};

} // namespace fsdp::test

#endif // FSDP_TEST_SIMULATION_SIMULATEDRANK_H
