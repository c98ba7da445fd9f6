#include "python/Interrupts.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <semaphore.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace fsdp {

namespace {

/// How long a call may go on after the first interrupt.
constexpr int secondsToFinish = 5;

// The calls that are under way. Several threads may be within runs of their
// own; our handler is there from the first call's begin to the last one's end.
std::mutex mutex;
std::vector<InterruptedCall *> calls;
unsigned long lastNumber = 0;

// Posted by the signal handler for each interrupt within a call.
sem_t interrupts;
struct sigaction before;

void onInterrupt(int number, siginfo_t *info, void *context) {
  sem_post(&interrupts);
  // Python's handler, which remembers it for the interpreter.
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, info, context);
  else
    before.sa_handler(number);
}

/// Where an interrupt is ignored, or ends the process, it goes on doing so.
bool isCaught(const struct sigaction &action) {
  return (action.sa_flags & SA_SIGINFO) ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool isOurs(const struct sigaction &action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == onInterrupt;
}

void handleInterrupts() {
  struct sigaction now;
  sigaction(SIGINT, nullptr, &now);
  if (!isCaught(now) || isOurs(now))
    return;
  before = now;
  struct sigaction action = {};
  action.sa_sigaction = onInterrupt;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigaction(SIGINT, &action, nullptr);
}

/// A handler that the script has set meanwhile stays.
void leaveInterrupts() {
  struct sigaction now;
  sigaction(SIGINT, nullptr, &now);
  if (isOurs(now))
    sigaction(SIGINT, &before, nullptr);
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
      interrupted = lastNumber;
    }
    awaitSecond();
    std::vector<std::function<void()>> giveUps;
    {
      std::lock_guard<std::mutex> lock(mutex);
      for (InterruptedCall *call : calls)
        if (call->number <= interrupted && call->giveUp)
          giveUps.push_back(std::exchange(call->giveUp, nullptr));
    }
    for (const std::function<void()> &giveUp : giveUps)
      giveUp();
  }
}

/// Started when the first call is, in this process: a fork has no threads.
void startWatching() {
  static pid_t startedIn = 0;
  if (startedIn == getpid())
    return;
  startedIn = getpid();
  calls.clear();
  sem_init(&interrupts, 0, 0);
  std::thread(watch).detach();
}

} // namespace

InterruptedCall::InterruptedCall(std::function<void()> giveUp)
    : giveUp(std::move(giveUp)) {
  std::lock_guard<std::mutex> lock(mutex);
  startWatching();
  number = ++lastNumber;
  calls.push_back(this);
  if (calls.size() == 1)
    handleInterrupts();
}

InterruptedCall::~InterruptedCall() {
  std::lock_guard<std::mutex> lock(mutex);
  calls.erase(std::find(calls.begin(), calls.end(), this));
  if (calls.empty())
    leaveInterrupts();
}

} // namespace fsdp
