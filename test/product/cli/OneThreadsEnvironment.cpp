// Preloaded into a program, ends it where it changes its environment while it
// has more than one thread. Another thread may read a variable then, in memory
// that the change frees.
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>

namespace {

int countThreads() {
  DIR *threads = opendir("/proc/self/task");
  int count = -2; // "." and ".."
  while (threads && readdir(threads))
    ++count;
  if (threads)
    closedir(threads);
  return count;
}

void requireOneThread(const char *function, const char *variable) {
  int count = countThreads();
  if (count == 1)
    return;
  std::fprintf(stderr, "%s(%s) among %d threads\n", function, variable, count);
  std::abort();
}

template <typename Function> Function *original(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

int setenv(const char *name, const char *value, int overwrite) noexcept {
  // Without a word where it changes nothing.
  if (overwrite || !std::getenv(name))
    requireOneThread("setenv", name);
  return original<int(const char *, const char *, int)>("setenv")(name, value,
                                                                  overwrite);
}

int unsetenv(const char *name) noexcept {
  requireOneThread("unsetenv", name);
  return original<int(const char *)>("unsetenv")(name);
}

int putenv(char *assignment) noexcept {
  requireOneThread("putenv", assignment);
  return original<int(char *)>("putenv")(assignment);
}

} // extern "C"
