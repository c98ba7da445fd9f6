#ifndef FSDP_RUNTIME_PLAN_SHA256_H
#define FSDP_RUNTIME_PLAN_SHA256_H

#include <string>
#include <string_view>

namespace fsdp::plan {

/// The 32 bytes of a SHA-256 (FIPS 180-4). Here rather than of a library, since
/// a machine that only runs plans may have none.
std::string sha256(std::string_view data);

/// Two lower-case digits for each byte.
std::string toHex(std::string_view bytes);

} // namespace fsdp::plan

#endif // FSDP_RUNTIME_PLAN_SHA256_H
