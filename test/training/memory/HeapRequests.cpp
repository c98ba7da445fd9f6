// Preloaded into a process, counts its requests for large blocks of the heap
// and writes their number to the file $HEAP_REQUESTS when it ends.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

extern "C" {
// glibc's own, of which the usual names are aliases.
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
}

namespace {

constexpr size_t large = 16 << 10;
std::atomic<unsigned long> requests{0};

void note(size_t bytes) {
  if (bytes >= large)
    ++requests;
}

/// At either way to end: programs that leave static objects as they are end by
/// quick_exit.
[[gnu::destructor]] void report() {
  const char *path = std::getenv("HEAP_REQUESTS");
  std::FILE *file = path ? std::fopen(path, "w") : nullptr;
  if (!file)
    return;
  std::fprintf(file, "%lu\n", requests.load());
  std::fclose(file);
}

[[gnu::constructor]] void registerReport() { std::at_quick_exit(report); }

} // namespace

extern "C" {

void *malloc(size_t bytes) {
  note(bytes);
  return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
  note(count * bytes);
  return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes) {
  note(bytes);
  return __libc_realloc(block, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
  note(bytes);
  *block = __libc_memalign(alignment, bytes);
  return *block ? 0 : ENOMEM;
}

} // extern "C"
