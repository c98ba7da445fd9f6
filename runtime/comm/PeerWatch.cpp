#include "comm/PeerWatch.h"

#include "Error.h"
#include "comm/Communicator.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace fsdp {

static PeerFailure ended(int rank) {
  return PeerFailure("rank " + std::to_string(rank) + " ended without a word");
}

PeerWatch::~PeerWatch() {
  for (const pollfd &handle : handles)
    close(handle.fd);
}

void PeerWatch::add(int rank, int64_t process) {
  if (process == getpid())
    return;
  int handle = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (handle < 0 && errno == ESRCH)
    throw ended(rank);
  if (handle < 0)
    throw Error(E::System, "cannot watch process " + std::to_string(process) +
                               ": " + std::strerror(errno));
  handles.push_back({handle, POLLIN, 0});
  ranks.push_back(rank);
}

void PeerWatch::check() const {
  // A copy, since a rank may wait on several threads.
  std::vector<pollfd> asked = handles;
  if (asked.empty() || poll(asked.data(), asked.size(), 0) <= 0)
    return;
  for (size_t i = 0; i < asked.size(); ++i)
    if (asked[i].revents)
      throw ended(ranks[i]);
}

} // namespace fsdp
