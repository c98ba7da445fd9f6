// The imitated GPUs' memory, and pinned memory. Addresses are never used twice:
// what was freed stays unmapped, and who touches it is found out.
#ifndef FSDP_TEST_IMITATION_MEMORY_H
#define FSDP_TEST_IMITATION_MEMORY_H

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace fsdp::imitation {

constexpr int pinned = -1; // in place of a GPU's number

enum class Kind { Device, Pinned, Pageable, Bad };

class Memory {
public:
  /// Zeroed only by chance, as CUDA's. Null when the GPU has not as much left.
  char *allocate(uint64_t bytes, int gpu, uint64_t limit);
  /// False: there is no such block, of a GPU or pinned as said.
  bool release(void *block, bool isPinned);
  /// Bad: not wholly inside one block, or freed.
  Kind kindOf(const void *address, uint64_t bytes) const;
  /// What a GPU's blocks hold, by their beginning.
  using Contents = std::map<char *, std::vector<char>>;
  Contents contents(int gpu) const;
  uint64_t used(int gpu) const;
  uint64_t used() const;

private:
  struct Block {
    uint64_t bytes, mapped;
    int gpu;
    bool freed;
  };
  mutable std::mutex mutex;
  std::map<const char *, Block> blocks; // by their beginning
};

Memory &memory();

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_MEMORY_H
