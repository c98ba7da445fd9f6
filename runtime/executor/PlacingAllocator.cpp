#include "executor/PlacingAllocator.h"

#include "executor/OperatorMemory.h"
#include "executor/Scratch.h"

#include <algorithm>
#include <atomic>
#include <c10/core/CPUAllocator.h>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace fsdp {

/// The calling thread's sources of the host's memory, and of a GPU's.
static thread_local AllocationSource *ofHost = nullptr, *ofGpu = nullptr;
static thread_local bool isHelper = true;
static std::atomic<uint64_t> helperBytes{0};

UseSource::UseSource(AllocationSource &source)
    : slot(source.device.is_cpu() ? ofHost : ofGpu), previous(slot) {
  slot = &source;
  isHelper = false;
}

UseSource::~UseSource() { slot = previous; }

namespace {

/// All that executors lend, for those who free by address alone.
struct LentMemory {
  std::shared_mutex mutex;
  std::vector<std::pair<const char *, const char *>> ranges;

  bool contains(const void *pointer) {
    auto *p = static_cast<const char *>(pointer);
    std::shared_lock<std::shared_mutex> lock(mutex);
    return std::any_of(ranges.begin(), ranges.end(), [&](auto &range) {
      return range.first <= p && p < range.second;
    });
  }
};

LentMemory &lent() {
  static auto *memory = new LentMemory; // kept: tensors may be freed after main
  return *memory;
}

void releaseRaw(void *pointer) {
  OperatorMemory::noteRelease(pointer);
  if (lent().contains(pointer))
    return Scratch::release(pointer);
  defaultAllocator(c10::kCPU).raw_deleter()(pointer);
}

class PlacingAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    if (ofHost && bytes)
      return ofHost->allocate(bytes);
    if (isHelper)
      helperBytes.fetch_add(bytes, std::memory_order_relaxed);
    return defaultAllocator(c10::kCPU).allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &releaseRaw; }
  void copy_data(void *to, const void *from, size_t count) const override {
    default_copy_data(to, from, count);
  }
};

/// PyTorch wants allocators to be set before anybody allocates.
struct Registration {
  Registration() : previous(*c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(&placing, /*priority=*/255);
  }
  c10::Allocator &previous;
  PlacingAllocator placing;
};

Registration &registration() {
  // Never destroyed: tensors may be freed after main.
  static auto *instance = new Registration();
  return *instance;
}

[[maybe_unused]] Registration &atStart = registration();

} // namespace

uint64_t bytesTakenByHelpers() {
  return helperBytes.load(std::memory_order_relaxed);
}

static std::atomic<c10::Allocator *> gpuAllocator{nullptr};

void setDefaultGpuAllocator(c10::Allocator &allocator) {
  gpuAllocator = &allocator;
}

c10::Allocator &defaultAllocator(c10::DeviceType type) {
  return type == c10::kCPU ? registration().previous : *gpuAllocator.load();
}

const MemoryHooks gpuMemoryHooks = {[](size_t bytes) {
                                      return ofGpu ? ofGpu->allocate(bytes)
                                                   : c10::DataPtr();
                                    },
                                    [](void *pointer) {
                                      OperatorMemory::noteRelease(pointer);
                                      if (!lent().contains(pointer))
                                        return false;
                                      Scratch::release(pointer);
                                      return true;
                                    }};

void lendMemory(const char *begin, const char *end) {
  std::unique_lock<std::shared_mutex> lock(lent().mutex);
  lent().ranges.emplace_back(begin, end);
}

void forgetMemory(const char *begin) {
  std::unique_lock<std::shared_mutex> lock(lent().mutex);
  auto &ranges = lent().ranges;
  ranges.erase(std::remove_if(ranges.begin(), ranges.end(),
                              [&](auto &r) { return r.first == begin; }),
               ranges.end());
}

c10::DataPtr lentPointer(char *address, c10::Device device) {
  return {address, address, [](void *) {}, device};
}

} // namespace fsdp
