#ifndef FSDP_TEST_UNIT_COMM_RANKPROCESSES_H
#define FSDP_TEST_UNIT_COMM_RANKPROCESSES_H

#include "TemporaryFolder.h"
#include "comm/SharedMemoryCommunicator.h"

#include <cstdio>
#include <functional>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <unistd.h>
#include <vector>

namespace fsdp::test {

/// Runs `body` in a process of its own, which ends with status 0 where it
/// returns true. One that waits for ever is ended by a signal.
inline pid_t inProcess(const std::function<bool()> &body) {
  pid_t child = fork();
  if (child != 0)
    return child;
  alarm(60);
  bool good = false;
  try {
    good = body();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  _exit(good ? 0 : 1);
}

/// As waitpid() gives it.
inline int statusOf(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

/// Ranks that are processes. A body that throws has failed, and the others are
/// told, as fsdp-run does.
class RankProcesses {
public:
  using Body = std::function<bool(Communicator &)>;
  using Connect = std::function<std::unique_ptr<Communicator>(
      c10d::Store &, int rank, int ranks)>;

  static std::unique_ptr<Communicator> shareMemory(c10d::Store &store, int rank,
                                                   int ranks) {
    return createSharedMemoryCommunicator(store, rank, ranks,
                                          std::chrono::seconds(30));
  }

  RankProcesses(int ranks, const Body &body,
                const Connect &connect = shareMemory) {
    for (int r = 0; r < ranks; ++r)
      children.push_back(inProcess([&] {
        auto store =
            c10::make_intrusive<c10d::FileStore>(folder / "store", ranks);
        auto c = connect(*store, r, ranks);
        try {
          return body(*c);
        } catch (const std::exception &error) {
          c->abort(error.what());
          throw;
        }
      }));
  }
  pid_t process(int rank) const { return children[rank]; }
  /// Waits for all.
  std::vector<int> statuses() const {
    std::vector<int> result;
    for (pid_t child : children)
      result.push_back(statusOf(child));
    return result;
  }

private:
  TemporaryFolder folder;
  std::vector<pid_t> children;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_COMM_RANKPROCESSES_H
