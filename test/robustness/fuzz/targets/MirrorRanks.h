#ifndef FSDP_TEST_FUZZ_TARGETS_MIRRORRANKS_H
#define FSDP_TEST_FUZZ_TARGETS_MIRRORRANKS_H

#include "comm/Communicator.h"
#include "comm/Reduce.h"

#include <cstring>
#include <deque>
#include <vector>

namespace fsdp::test {

/// One rank of several, where all others have what it has: a plan for any
/// number of ranks runs in one thread and waits for nobody. Numbers are of no
/// interest here, only which memory is read and written.
class MirrorRanks final : public Communicator {
public:
  MirrorRanks(int rank, int size) : myRank(rank), ranks(size) {}

  int rank() const override { return myRank; }
  int size() const override { return ranks; }
  std::string transport() const override { return "a mirror"; }
  uint64_t start(const Transfer &transfer) override {
    checkReduction(transfer);
    inFlight.at(transfer.channel).push_back(transfer);
    return transfer.channel;
  }
  void finish(uint64_t ticket) override {
    std::deque<Transfer> &channel = inFlight.at(channelOf(ticket));
    Transfer transfer = channel.front();
    channel.pop_front();
    move(transfer);
  }
  void leave(const std::string &) override {}

private:
  void move(const Transfer &transfer) const {
    plan::RankGroup members = groupOf(transfer);
    size_t bytes = transfer.count * plan::dtypeBytes(transfer.dtype);
    const char *from = static_cast<const char *>(transfer.source);
    char *to = static_cast<char *>(transfer.destination);
    const char *mine = from + members.indexOf(myRank) * bytes;
    switch (transfer.kind) {
    case plan::CollectiveKind::AllGather:
      for (uint32_t i = 0; i < members.size; ++i)
        std::memmove(to + i * bytes, from, bytes);
      break;
    case plan::CollectiveKind::AllToAll:
      for (uint32_t i = 0; i < members.size; ++i)
        std::memmove(to + i * bytes, mine, bytes);
      break;
    case plan::CollectiveKind::ReduceScatter:
      return reduce(transfer, mine, members.size);
    case plan::CollectiveKind::AllReduce:
      return reduce(transfer, from, members.size);
    }
  }
  static void reduce(const Transfer &transfer, const char *from, size_t times) {
    combine(std::vector<const void *>(times, from), {transfer.destination},
            transfer.count, transfer.dtype, transfer.divisor, transfer.op);
  }

  int myRank, ranks;
  std::vector<std::deque<Transfer>> inFlight{numChannels};
};

} // namespace fsdp::test

#endif // FSDP_TEST_FUZZ_TARGETS_MIRRORRANKS_H
