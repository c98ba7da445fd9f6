// What a rank learns about the others when one keeps it waiting.
#ifndef FSDP_RUNTIME_COMM_RANKSTATES_H
#define FSDP_RUNTIME_COMM_RANKSTATES_H

#include "comm/RankProgress.h"
#include "plan/PlanTypes.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Where a rank was when it was asked.
struct RankPosition {
  struct Channel {
    uint64_t started = 0;    // transfers
    uint64_t awaited = 0;    // which of them it waits for; 0: none
    std::string startedName; // of the last one
    double startedAgo = 0;   // seconds
    std::string awaitedName; // while it waits
    double awaitedFor = 0;   // seconds
  };
  uint64_t step = 0;
  std::array<Channel, numChannels> channels;
  /// Whether it waits for another rank itself.
  bool waits() const;
};

RankPosition positionOf(const RankProgress &progress);
std::string packPosition(const RankPosition &position);
/// Nothing where another version wrote it.
std::optional<RankPosition> unpackPosition(const std::string &text);

/// What is known about one rank.
struct RankState {
  enum Condition {
    Answers,
    Silent,      // it does not answer
    Unreachable, // nor does the place where all could be asked
    Near,        // likewise, but it runs on this host
    Stopped,     // on this host
    Ended,       // on this host
    Left,        // it failed, and said why
  };
  Condition condition = Silent;
  std::string host; // empty: it never said
  int64_t process = 0;
  /// Which rank failed, and why, as this one said when it left; or empty.
  std::string lastWord;
  std::optional<RankPosition> position; // where it answers
};

/// What a rank waits for.
struct AwaitedTransfer {
  const char *name; // see Transfer
  unsigned channel;
  uint64_t number; // on its channel, from 1
  plan::RankGroup group;
};

/// Who has not come.
struct Culprits {
  std::vector<int> ranks;
  /// Of each: "its process 17 on a.example is stopped".
  std::vector<std::string> reasons;
};

/// Who keeps `rank` from finishing a transfer: those that cannot come, else
/// those that left and said why, else those that could have come and have not,
/// else those that wait elsewhere.
/// Nobody where all have come and wait for each other.
Culprits findCulprits(int rank, const AwaitedTransfer &awaited,
                      const std::vector<RankState> &states);

/// What people are told of a wait of so many seconds that goes on:
/// "rank 1 has kept rank 0 waiting for 30 s, since 17:05:21 UTC, in all-gather
/// of a (forward) of step 3: its process 17 on b.example is stopped". Step 0:
/// none runs.
std::string describeWait(int rank, uint64_t step, double seconds,
                         const AwaitedTransfer &awaited,
                         const Culprits &culprits);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_RANKSTATES_H
