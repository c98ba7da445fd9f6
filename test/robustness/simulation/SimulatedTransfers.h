// Collectives whose bytes move when an adversary wants them to.
#ifndef FSDP_TEST_SIMULATION_SIMULATEDTRANSFERS_H
#define FSDP_TEST_SIMULATION_SIMULATEDTRANSFERS_H

#include "RankScheduler.h"
#include "comm/Communicator.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::test {

/// What is on its way between the ranks of one process. From a rank's start to
/// its finish its source may be read and its destination written, in pieces, at
/// any time; until the result is there, its destination may be anything. A
/// transfer ends on no rank before it has begun on all.
class SimulatedTransfers {
public:
  SimulatedTransfers(RankScheduler &scheduler, int ranks);
  ~SimulatedTransfers();

  /// Numbers as Communicator::start() gives them. `shown`: a window shows the
  /// sources, and nothing moves. Throws Error where ranks start different ones.
  uint64_t start(int rank, const Transfer &transfer, bool shown);
  bool isOver(int rank, uint64_t ticket) const;
  /// Once for each that is over.
  void forget(int rank, uint64_t ticket);

  /// A rank has failed: nothing moves any more. The first counts.
  void fail(const std::string &why);
  bool hasFailed() const { return failed; }
  /// Throws PeerFailure when a rank has failed.
  void check() const;

private:
  /// The last of a transfer's key: who takes part.
  struct Key {
    unsigned channel;
    uint64_t number;
    plan::RankGroup group;
    bool operator<(const Key &other) const;
  };
  class Meeting;
  class Wire;

  RankScheduler &scheduler;
  std::map<Key, std::unique_ptr<Meeting>> meetings;
  std::vector<std::unique_ptr<Wire>> wires; // by rank and channel
  struct Started {
    uint64_t transfers = 0;
    std::map<uint64_t, Key> open; // by number
  };
  std::vector<Started> started; // by rank and channel
  bool failed = false;
  std::string reason;
};

} // namespace fsdp::test

#endif // FSDP_TEST_SIMULATION_SIMULATEDTRANSFERS_H
