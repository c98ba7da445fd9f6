// For files that see gloo_compat/ alone.
#ifndef FSDP_RUNTIME_COMM_GLOOGROUPS_H
#define FSDP_RUNTIME_COMM_GLOOGROUPS_H

#include "comm/Communicator.h"

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace fsdp {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// The process groups of one rank: each channel has its own, so that channels
/// do not wait for each other, and each group of ranks that talks on it.
class GlooGroups {
public:
  using Options = c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>;

  /// Groups meet at the store, which is kept.
  explicit GlooGroups(c10d::Store &store)
      : store(c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store)) {}

  /// Null where it has not been made. Throws PeerFailure once they are closed,
  /// as make() and requireOpen() do.
  ProcessGroup find(unsigned channel, const plan::RankGroup &members);
  /// Waits for the members, who make it as well, and calls `look` meanwhile,
  /// which may throw. Throws what Gloo throws.
  ProcessGroup make(unsigned channel, const plan::RankGroup &members, int rank,
                    const Options &options, const std::function<void()> &look);
  void requireOpen() const;

  /// Fails the others' calls at once, or once the process ends: a group waits
  /// for its transfer before it closes, and that maybe for a rank that does
  /// nothing. Takes a second at most.
  void close();

private:
  c10::intrusive_ptr<c10d::Store> store;
  std::mutex mutex; // of what follows
  std::array<std::map<plan::RankGroup, ProcessGroup>, numChannels> channels;
  std::atomic<bool> closed = false; // read by all, too
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GLOOGROUPS_H
