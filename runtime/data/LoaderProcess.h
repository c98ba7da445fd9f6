#ifndef FSDP_RUNTIME_DATA_LOADERPROCESS_H
#define FSDP_RUNTIME_DATA_LOADERPROCESS_H

#include "data/BatchRing.h"

#include <chrono>
#include <string>
#include <sys/types.h>

namespace fsdp {

/// A command of the user's that feeds a ring. It ends with this object, and
/// with this process, however that ends; so do the processes that it started.
class LoaderProcess {
public:
  /// Starts `command` in a shell. Throws Error.
  LoaderProcess(const std::string &command, const BatchRing &ring,
                const BatchRing::Reader &reader,
                std::chrono::milliseconds patience);
  ~LoaderProcess();
  LoaderProcess(const LoaderProcess &) = delete;
  LoaderProcess &operator=(const LoaderProcess &) = delete;

  /// Waits until the loader says that one more thing is ready. Throws Error
  /// where it has ended, or says nothing for as long as the patience lasts;
  /// `what` is what was waited for: "batch 3 of epoch 1".
  void awaitReady(const std::string &what);
  /// Gives the loader `count` slots.
  void free(uint64_t count);

private:
  [[noreturn]] void runChild(const char *command, char **environment,
                             pid_t parent, int ringFile);
  bool takeReady();
  std::string describeEnd(const std::string &what);
  std::string askWhere();
  void end();

  const BatchRing &ring;
  std::chrono::milliseconds patience;
  pid_t pid = -1;
  int handle = -1;               // pidfd
  int ready = -1, freed = -1;    // eventfds
  int alive = -1, watching = -1; // a pipe that hangs up when this one ends
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_LOADERPROCESS_H
