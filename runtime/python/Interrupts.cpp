#include "python/Interrupts.h"

#include <cerrno>
#include <csignal>
#include <mutex>
#include <semaphore.h>
#include <thread>
#include <time.h>

namespace fsdp {

namespace {

/// How long a call may go on after the first interrupt.
constexpr int secondsToFinish = 5;

// Of the call that is under way; a process has one at a time that is watched.
std::mutex mutex;
std::function<void()> current;
unsigned long callNumber = 0;

// Posted by the signal handler for each interrupt within a call.
sem_t interrupts;
volatile std::sig_atomic_t within = 0;
struct sigaction before;

void onInterrupt(int number, siginfo_t *info, void *context) {
  if (within)
    sem_post(&interrupts);
  // Python's handler, which remembers it for the interpreter.
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(number);
}

/// Waits for a second interrupt, or until the time is over.
void awaitSecond() {
  timespec limit;
  clock_gettime(CLOCK_MONOTONIC, &limit);
  limit.tv_sec += secondsToFinish;
  while (sem_clockwait(&interrupts, CLOCK_MONOTONIC, &limit) != 0 &&
         errno == EINTR)
    ;
}

void watch() {
  // Signals are for the interpreter's thread.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    while (sem_wait(&interrupts) != 0)
      ;
    unsigned long interrupted;
    {
      std::lock_guard<std::mutex> lock(mutex);
      interrupted = callNumber;
    }
    awaitSecond();
    std::function<void()> giveUp;
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (callNumber == interrupted)
        giveUp.swap(current);
    }
    if (giveUp)
      giveUp();
  }
}

/// Started when the first call is, in this process.
void startWatching() {
  static const bool started = [] {
    sem_init(&interrupts, 0, 0);
    std::thread(watch).detach();
    return true;
  }();
  static_cast<void>(started);
}

} // namespace

InterruptedCall::InterruptedCall(std::function<void()> giveUp) {
  startWatching();
  {
    std::lock_guard<std::mutex> lock(mutex);
    current = std::move(giveUp);
    ++callNumber;
  }
  struct sigaction action = {};
  action.sa_sigaction = onInterrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigaction(SIGINT, &action, &before);
  within = 1;
}

InterruptedCall::~InterruptedCall() {
  within = 0;
  sigaction(SIGINT, &before, nullptr);
  std::lock_guard<std::mutex> lock(mutex);
  current = nullptr;
  ++callNumber;
}

} // namespace fsdp
