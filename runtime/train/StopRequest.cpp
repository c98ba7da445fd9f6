#include "train/StopRequest.h"

#include "StopSignals.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <exception>
#include <map>
#include <mutex>
#include <unistd.h>

namespace fsdp {

// Written by a signal handler, on any thread, and read by all: ranks may be
// threads.
static std::atomic<int> first{0};
static std::atomic<std::time_t> firstTime{0};
static_assert(std::atomic<int>::is_always_lock_free &&
                  std::atomic<std::time_t>::is_always_lock_free,
              "a signal handler may take no lock");

/// One word may come twice: from the terminal and from whoever started us.
static void remember(int number) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!first) {
    firstTime = now.tv_sec;
    first = number;
  } else if (now.tv_sec > firstTime + 1) {
    _exit(128 + number);
  }
}

static std::mutex mutex;
static int living = 0;
static std::map<int, struct sigaction> before;

StopRequest::StopRequest() : exceptions(std::uncaught_exceptions()) {
  std::lock_guard<std::mutex> lock(mutex);
  if (living++)
    return;
  first = 0;
  struct sigaction action = {};
  action.sa_handler = remember;
  // A system call that waits goes on waiting: the step is to be finished.
  action.sa_flags = SA_RESTART;
  for (int number : stopSignals)
    if (struct sigaction old; !isIgnored(number) &&
                              sigaction(number, &action, &old) == 0 &&
                              old.sa_handler != remember)
      before[number] = old;
}

StopRequest::~StopRequest() {
  std::lock_guard<std::mutex> lock(mutex);
  if (--living || std::uncaught_exceptions() > exceptions)
    return;
  for (const auto &[number, old] : before)
    sigaction(number, &old, nullptr);
}

int StopRequest::received() { return first; }

} // namespace fsdp
