#ifndef FSDP_RUNTIME_STATE_HASH_H
#define FSDP_RUNTIME_STATE_HASH_H

#include <cstddef>
#include <cstdint>
#include <vector>

// The hash that finds what a disk or a network has changed: XXH3 of 64 bits. It
// guards against accidents, and not against somebody who forges a file.

namespace fsdp::checkpoint {

/// Chunks are hashed in blocks of so many bytes, so that whoever needs a part
/// of a chunk need not read all of it.
constexpr int64_t hashBlockBytes = 4 << 20;

uint64_t hashOf(const void *data, size_t bytes);

/// One hash for each block of `hashBlockBytes`; the last may be shorter.
std::vector<uint64_t> hashesOf(const char *data, int64_t bytes);

} // namespace fsdp::checkpoint

#endif // FSDP_RUNTIME_STATE_HASH_H
