#include "comm/Contention.h"

#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace fsdp {

namespace {

/// The kernel's counters of the thread that opens it: nanoseconds on a CPU,
/// nanoseconds ready without one, and how often it ran.
class ThreadCounters {
public:
  ThreadCounters()
      : file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ThreadCounters(const ThreadCounters &) = delete;
  ~ThreadCounters() {
    if (file >= 0)
      close(file);
  }

  std::chrono::nanoseconds ready() const {
    char text[128];
    ssize_t bytes = file < 0 ? -1 : pread(file, text, sizeof(text) - 1, 0);
    if (bytes <= 0)
      return {};
    text[bytes] = 0;
    char *end = text;
    std::strtoull(end, &end, 10);
    return std::chrono::nanoseconds(std::strtoull(end, &end, 10));
  }

private:
  int file;
};

} // namespace

std::chrono::nanoseconds timeWithoutCpu() {
  static thread_local ThreadCounters counters;
  return counters.ready();
}

bool Contention::look(Clock::time_point now, std::chrono::nanoseconds without) {
  bool isFirst = last == Clock::time_point();
  bool found = !isFirst && (without - before) * 10 > now - last;
  last = now;
  before = without;
  return found;
}

} // namespace fsdp
