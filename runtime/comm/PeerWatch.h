#ifndef FSDP_RUNTIME_COMM_PEERWATCH_H
#define FSDP_RUNTIME_COMM_PEERWATCH_H

#include <cstdint>
#include <poll.h>
#include <vector>

namespace fsdp {

/// Notices the death of other ranks' processes, however they die.
class PeerWatch {
public:
  PeerWatch() = default;
  PeerWatch(const PeerWatch &) = delete;
  PeerWatch &operator=(const PeerWatch &) = delete;
  ~PeerWatch();

  /// Watches the process of `rank`, unless it is this one. Throws
  /// PeerFailure when it has ended, Error where the kernel does not allow it.
  void add(int rank, int64_t process);
  /// Throws PeerFailure when a rank's process has ended. A system call.
  void check() const;

private:
  std::vector<pollfd> handles;
  std::vector<int> ranks;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PEERWATCH_H
