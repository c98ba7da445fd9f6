#ifndef FSDP_RUNTIME_COMM_LOCALRANKS_H
#define FSDP_RUNTIME_COMM_LOCALRANKS_H

#include "comm/Communicator.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace fsdp {

/// Where ranks that are threads of one process tell each other about their
/// devices. Shared by all of them.
class LocalRanks {
public:
  explicit LocalRanks(int size) : left(size) {}

  int size() const { return static_cast<int>(left.size()); }

  /// What a rank says; not all of it each time.
  struct Post {
    Transfer transfer;
    std::shared_ptr<void> event; // see Device::makeEvent
    std::string gpu;             // Device::identity()
  };
  using Posts = std::shared_ptr<const std::vector<Post>>;

  /// What all ranks of the group say, in their order. Waits for them, and calls
  /// `whileWaiting` some times a second meanwhile. Throws PeerFailure when one
  /// of them left or any failed, and what the call throws.
  Posts exchange(const plan::RankGroup &group, int rank, Post post,
                 const std::function<void()> &whileWaiting = nullptr);

  /// Wakes who waits for a rank, which says nothing more.
  void leave(int rank);
  /// Wakes all, and all that follows fails.
  void fail(int rank);
  /// Throws PeerFailure when a rank failed.
  void check() const;

private:
  /// What the ranks of a group say next.
  struct Meeting {
    std::vector<Post> posts;
    std::vector<bool> posted;
    uint32_t missing;
    uint64_t round = 0;
    Posts result; // of the round before
  };

  void throwIfFailed() const;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<plan::RankGroup, Meeting> meetings;
  std::vector<bool> left;
  int failed = -1;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_LOCALRANKS_H
