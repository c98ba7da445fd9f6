// When the GPU of a process was busy. CUDA loads this library into any process
// that has it in CUDA_INJECTION64_PATH; the file that FSDP_GPU_TRACE names then
// gets a line for each kernel, copy and fill, `BEGIN END NAME`: when it began
// and ended, in nanoseconds. Those of a graph are listed one by one.
#include <cstdio>
#include <cstdlib>
#include <cupti.h>
#include <initializer_list>

namespace {

constexpr size_t bufferBytes = size_t(8) << 20;

std::FILE *trace = nullptr;

void write(uint64_t begin, uint64_t end, const char *name) {
  std::fprintf(trace, "%llu %llu %s\n", (unsigned long long)begin,
               (unsigned long long)end, name);
}

void CUPTIAPI giveBuffer(uint8_t **buffer, size_t *bytes, size_t *records) {
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, bufferBytes));
  *bytes = *buffer ? bufferBytes : 0;
  *records = 0; // as many as fit
}

void CUPTIAPI takeBuffer(CUcontext, uint32_t, uint8_t *buffer, size_t,
                         size_t validBytes) {
  CUpti_Activity *record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, validBytes, &record) ==
         CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      auto *kernel = reinterpret_cast<CUpti_ActivityKernel10 *>(record);
      write(kernel->start, kernel->end, kernel->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      auto *copy = reinterpret_cast<CUpti_ActivityMemcpy6 *>(record);
      write(copy->start, copy->end, "copy");
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      auto *fill = reinterpret_cast<CUpti_ActivityMemset4 *>(record);
      write(fill->start, fill->end, "fill");
    }
  }
  std::free(buffer);
}

void finish() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::fflush(trace);
}

} // namespace

/// Called by CUDA before its first use.
extern "C" int InitializeInjection() {
  const char *path = std::getenv("FSDP_GPU_TRACE");
  trace = path ? std::fopen(path, "w") : nullptr;
  if (!trace)
    return 1;
  cuptiActivityRegisterCallbacks(giveBuffer, takeBuffer);
  for (CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMSET})
    cuptiActivityEnable(kind);
  // Python's way to end, and fsdp-run's.
  std::atexit(finish);
  std::at_quick_exit(finish);
  return 1;
}
