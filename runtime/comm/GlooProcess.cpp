#include "comm/GlooProcess.h"

#include "Error.h"
#include "plan/FormatText.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <mutex>
#include <sys/syscall.h>
#include <typeinfo>
#include <unistd.h>
#include <vector>

namespace fsdp {

namespace {

/// Of the process. Never destroyed: threads may fail while it ends.
struct Failures {
  std::mutex mutex;
  std::vector<std::string> texts;
  std::atomic<size_t> count = 0; // of texts
  std::terminate_handler next = nullptr;
};
Failures &failures() {
  static auto *all = new Failures();
  return *all;
}

/// Gloo's types are named, not declared: PyTorch's wheel has no header of them.
bool isGloos(const std::type_info *type) {
  constexpr char space[] = "N4gloo"; // of a mangled name
  return type && std::strncmp(type->name(), space, sizeof(space) - 1) == 0;
}

/// The exception that nobody caught; empty where it has no words.
std::string wordsOf(const std::exception_ptr &thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception &error) {
    return error.what();
  } catch (...) {
    return "";
  }
}

/// Nothing was unwound yet, so the thread has locks of Gloo. Others would wait
/// for these, but no memory that it uses is gone.
void onTerminate() {
  Failures &all = failures();
  bool isMain = syscall(SYS_gettid) == getpid();
  if (!isMain && isGloos(abi::__cxa_current_exception_type())) {
    {
      std::lock_guard<std::mutex> lock(all.mutex);
      all.texts.push_back(wordsOf(std::current_exception()));
      all.count = all.texts.size();
    }
    for (;;)
      pause();
  }
  if (all.next)
    all.next();
  std::abort();
}

/// Gloo's TLS of PyTorch 2.11 loads its certificates and then sends everything
/// as it is, to anybody: worse than none, since people rely on it.
void refuseTls() {
  const char *transport = std::getenv("GLOO_DEVICE_TRANSPORT");
  if (transport && std::strcmp(transport, "TCP_TLS") == 0)
    throw Error(E::Secret,
                "GLOO_DEVICE_TRANSPORT is TCP_TLS, but the Gloo of PyTorch "
                "2.11 then sends everything unencrypted all the same; unset "
                "it, and keep the ranks in a network that you trust");
}

} // namespace

void setGlooVariables() {
  // PyTorch 2.11's flight recorder writes down each transfer, for a debugger
  // of process groups, and enters new groups into its table before it takes
  // its lock: two threads that start their groups' first transfers at once
  // corrupt it.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
}

void prepareForGloo() {
  refuseTls();
  static std::once_flag once;
  std::call_once(once, [] {
    // Gloo writes to sockets whose other end may have failed: that is an error
    // to report, not a signal to die of. Python, its usual host, ignores it
    // too.
    std::signal(SIGPIPE, SIG_IGN);
    setGlooVariables();
    failures().next = std::set_terminate(onTerminate);
  });
}

GlooThreads::GlooThreads() : before(failures().count) {}

bool GlooThreads::hasFailed() const { return failures().count > before; }

std::string GlooThreads::failure() const {
  std::string text;
  {
    std::lock_guard<std::mutex> lock(failures().mutex);
    text = failures().texts.at(before);
  }
  // Its check of a message's size: "op.preamble.length <= op.nbytes. 800 vs
  // 400."
  size_t check = text.find("preamble.length <= ");
  unsigned long long sent, awaited;
  if (check != std::string::npos &&
      std::sscanf(text.c_str() + check, "preamble.length <= %*s %llu vs %llu",
                  &sent, &awaited) == 2)
    return "was sent " + std::to_string(sent) + " bytes where it awaits " +
           std::to_string(awaited);
  return "was sent what it cannot read (" + firstLine(text) + ")";
}

} // namespace fsdp
