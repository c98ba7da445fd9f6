#ifndef FSDP_RUNTIME_EXECUTOR_SCRATCH_H
#define FSDP_RUNTIME_EXECUTOR_SCRATCH_H

#include "device/Device.h"
#include "executor/PlacingAllocator.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace fsdp {

/// Blocks one above the other: a block lies on top of the highest that is in
/// use. Offsets in bytes, multiples of 64.
class BlockStack {
public:
  uint64_t push(uint64_t bytes);
  void remove(uint64_t offset);
  bool empty() const { return blocks.empty(); }
  uint64_t top() const { return blocks.empty() ? 0 : blocks.back().end; }

private:
  struct Block {
    uint64_t begin, end;
    bool removed;
  };
  std::vector<Block> blocks;
};

/// The region for what kernels allocate beside their outputs. Its size is what
/// the first run of each operator asks for. Used by one thread.
class Scratch : public AllocationSource {
public:
  /// Its regions come from `allocate`.
  Scratch(c10::Device device, std::function<DeviceMemory(uint64_t)> allocate)
      : AllocationSource(device), allocateRegion(std::move(allocate)) {}
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  /// From the region; what does not fit comes from the default allocator and
  /// is counted.
  c10::DataPtr allocate(size_t bytes) override;
  /// From the default allocator, counted.
  c10::DataPtr allocateOutside(size_t bytes);

  /// The region must hold `bytes`, from the next call of grow() on.
  void require(uint64_t bytes) { wanted = std::max(wanted, bytes); }
  void grow();

  /// Whether all blocks are back. If not, somebody keeps one: the region is
  /// left to them, and a new one takes its place.
  bool reclaim();

  /// The region stays where it is, whatever is required later: a graph has its
  /// addresses.
  void keepRegion() { kept = true; }

  uint64_t bytes() const { return size; }
  uint64_t bytesOutside() const { return outside; }

  /// Takes back a block of the scratch that the calling thread uses
  /// (UseScratch) and ignores all others.
  static void release(void *pointer);

private:
  friend class UseScratch;
  void replace(uint64_t bytes);

  std::function<DeviceMemory(uint64_t)> allocateRegion;
  char *region = nullptr;
  uint64_t size = 0, wanted = 0, outside = 0;
  BlockStack blocks;
  std::vector<DeviceMemory> regions; // the last is in use
  bool kept = false;                 // the last, when another takes its place
};

/// Makes a scratch the calling thread's, and its source of memory.
class UseScratch {
public:
  explicit UseScratch(Scratch &scratch);
  ~UseScratch();

private:
  Scratch *previous;
  UseSource source;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_SCRATCH_H
