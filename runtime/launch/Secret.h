#ifndef FSDP_RUNTIME_LAUNCH_SECRET_H
#define FSDP_RUNTIME_LAUNCH_SECRET_H

#include "launch/Environment.h"

#include <string>

namespace fsdp {

/// The environment variables that hold a run's secret, or name its file.
inline constexpr const char *secretVariable = "FSDP_RUN_SECRET";
inline constexpr const char *secretFileVariable = "FSDP_RUN_SECRET_FILE";

/// What the ranks of a run know and nobody else does: the value of
/// FSDP_RUN_SECRET, or the text of the file that FSDP_RUN_SECRET_FILE names,
/// without the line end. Empty where neither is set. Throws Error when both are
/// set, when the secret has fewer than 16 bytes, or when other users may read
/// the file.
std::string findSecret(const Variables &variables);

/// A new secret: 32 random bytes in hexadecimal digits.
std::string makeSecret();

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_SECRET_H
