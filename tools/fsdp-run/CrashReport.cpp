#include "CrashReport.h"

#include <csignal>
#include <cstring>
#include <execinfo.h>
#include <iterator>
#include <unistd.h>

namespace fsdp {

namespace {

constexpr int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/// For the main thread, which may have no stack left.
char ownStack[64 << 10];

/// Not by a stream, whose locks or memory may be what broke.
void say(const char *text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0)
    return; // nobody to tell
}

void onCrash(int number) {
  say("fsdp-run crashed, which is a defect of it; please report it with the "
      "lines below\n");
  void *calls[64];
  backtrace_symbols_fd(calls, backtrace(calls, std::size(calls)),
                       STDERR_FILENO);
  raise(number); // the handler was there for one signal
}

} // namespace

void reportCrashes() {
  // Its first call loads a library, for which a handler may have no memory.
  void *call;
  backtrace(&call, 1);
  stack_t stack = {};
  stack.ss_sp = ownStack;
  stack.ss_size = sizeof(ownStack);
  sigaltstack(&stack, nullptr);
  for (int number : crashes) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0 ||
        action.sa_handler != SIG_DFL)
      continue;
    action.sa_handler = onCrash;
    action.sa_flags = SA_RESETHAND | SA_NODEFER | SA_ONSTACK;
    sigaction(number, &action, nullptr);
  }
}

} // namespace fsdp
