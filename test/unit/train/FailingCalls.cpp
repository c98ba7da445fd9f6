#include "FailingCalls.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fsdp::test {

static FailingCall failing;
static std::atomic<int> calls = 0;

void setFailingCall(const FailingCall &call) {
  failing = call;
  calls = 0;
}

int countedCalls() { return calls; }

/// Whether this call is to fail; it may not return.
static bool fails(const char *path) {
  if (failing.folder.empty() || !path ||
      std::strncmp(path, failing.folder.c_str(), failing.folder.size()) != 0)
    return false;
  int number = ++calls;
  bool now = failing.at &&
             (failing.forGood ? number >= failing.at : number == failing.at);
  if (now && !failing.error)
    kill(getpid(), SIGKILL);
  if (now)
    errno = failing.error;
  return now;
}

static bool failsAt(int file) {
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0)
    return false;
  path[length] = 0;
  return fails(path);
}

/// The function that this one stands before.
template <typename Function> static Function next(const char *name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

} // namespace fsdp::test

using namespace fsdp::test;

extern "C" {

int open(const char *path, int flags, ...) {
  static auto real = next<int (*)(const char *, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return (flags & O_CREAT) && fails(path) ? -1 : real(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
  static auto real = next<int (*)(const char *, mode_t)>("mkdir");
  return fails(path) ? -1 : real(path, mode);
}

ssize_t write(int file, const void *data, size_t bytes) {
  static auto real = next<ssize_t (*)(int, const void *, size_t)>("write");
  return failsAt(file) ? -1 : real(file, data, bytes);
}

ssize_t pwrite(int file, const void *data, size_t bytes, off_t offset) {
  static auto real =
      next<ssize_t (*)(int, const void *, size_t, off_t)>("pwrite");
  return failsAt(file) ? -1 : real(file, data, bytes, offset);
}

int ftruncate(int file, off_t bytes) {
  static auto real = next<int (*)(int, off_t)>("ftruncate");
  return failsAt(file) ? -1 : real(file, bytes);
}

int fsync(int file) {
  static auto real = next<int (*)(int)>("fsync");
  return failsAt(file) ? -1 : real(file);
}

int rename(const char *from, const char *to) {
  static auto real = next<int (*)(const char *, const char *)>("rename");
  return fails(from) ? -1 : real(from, to);
}

int renameat2(int fromFolder, const char *from, int toFolder, const char *to,
              unsigned flags) {
  static auto real =
      next<int (*)(int, const char *, int, const char *, unsigned)>(
          "renameat2");
  return fails(from) ? -1 : real(fromFolder, from, toFolder, to, flags);
}

int unlink(const char *path) {
  static auto real = next<int (*)(const char *)>("unlink");
  return fails(path) ? -1 : real(path);
}

int remove(const char *path) {
  static auto real = next<int (*)(const char *)>("remove");
  return fails(path) ? -1 : real(path);
}

int unlinkat(int folder, const char *path, int flags) {
  static auto real = next<int (*)(int, const char *, int)>("unlinkat");
  bool now = path[0] == '/' ? fails(path) : failsAt(folder);
  return now ? -1 : real(folder, path, flags);
}

} // extern "C"
