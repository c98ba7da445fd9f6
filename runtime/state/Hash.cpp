#include "state/Hash.h"

// The library picks the widest vectors that the machine has when it runs. The
// header alone knows only those that the compiler may assume, which takes twice
// the time.
#ifdef FSDP_XXHASH_DISPATCH
#include <xxhash.h>
// After xxhash.h, whose functions it renames.
#include <xxh_x86dispatch.h>
#else
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

#include <algorithm>

namespace fsdp::checkpoint {

uint64_t hashOf(const void *data, size_t bytes) {
  return XXH3_64bits(data, bytes);
}

std::vector<uint64_t> hashesOf(const char *data, int64_t bytes) {
  std::vector<uint64_t> hashes;
  for (int64_t begin = 0; begin < bytes; begin += hashBlockBytes)
    hashes.push_back(
        hashOf(data + begin, std::min(hashBlockBytes, bytes - begin)));
  return hashes;
}

} // namespace fsdp::checkpoint
