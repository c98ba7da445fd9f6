#ifndef FSDP_RUNTIME_LAUNCH_SUPERVISOR_H
#define FSDP_RUNTIME_LAUNCH_SUPERVISOR_H

#include <string>
#include <vector>

namespace fsdp {

/// The ranks of this host, each a process of its own.
struct SupervisedRanks {
  int count = 1;
  int firstRank = 0;
  int worldSize = 1;
  /// Started for each rank, which finds itself in RANK, WORLD_SIZE and
  /// LOCAL_RANK. "%MEETING%" stands for a file that all of them share,
  /// "%ERROR%" for the one in which a rank leaves its error.
  std::vector<std::string> command;
  /// Where a rank begins, in a copy of this process, with the words of the
  /// command; without it the program is started anew.
  void (*begin)(int argc, char **argv) = nullptr;
};

/// Starts the ranks and waits for them. When one fails the others are ended,
/// and the error of the one that failed first is printed, once. A stop signal
/// is passed on, so that ranks can finish their step; a second one ends them at
/// once. Returns the exit status of the run: 0, 1, or 128 plus the signal's
/// number. Leaves no process and no file behind.
int superviseRanks(const SupervisedRanks &ranks);

/// "stopped by Terminated": of an exit status of 128 plus a signal's number.
std::string describeStop(int status);

/// For a rank's own process: removes `path` when a signal ends it (an
/// unfinished output); empty: nothing.
void removeWhenKilled(const std::string &path);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_SUPERVISOR_H
