#ifndef FSDP_RUNTIME_DEVICE_HUGEPAGES_H
#define FSDP_RUNTIME_DEVICE_HUGEPAGES_H

#include <cstdint>

namespace fsdp {

/// Maps `bytes` of a file, or of zeroed private memory where `descriptor` is
/// -1, for reading and writing. What is large begins where a huge page may, and
/// asks for huge pages: fewer misses of the address cache. Returns null, with
/// errno set, when it cannot. To be unmapped with munmap.
char *mapAligned(uint64_t bytes, int descriptor = -1);

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_HUGEPAGES_H
