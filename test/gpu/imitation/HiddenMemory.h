// The memory of a GPU that runs nothing: what copies bring there can be fetched
// back, and the host that touches it by itself crashes.

#ifndef FSDP_TEST_IMITATION_HIDDENMEMORY_H
#define FSDP_TEST_IMITATION_HIDDENMEMORY_H

#include <cstddef>

namespace fsdp::imitation {

/// Null where there is no room. Aligned to a page.
char *allocateHidden(size_t bytes);
/// False where the address is no block's. Null is freed.
bool freeHidden(void *block);

/// Where copies find what is at an address: the host's own are as they are.
char *shown(const void *address);

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_HIDDENMEMORY_H
