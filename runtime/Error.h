#ifndef FSDP_RUNTIME_ERROR_H
#define FSDP_RUNTIME_ERROR_H

#include <stdexcept>
#include <string>

namespace fsdp {

/// What a user reads after `error: `: lower case, one line, no full stop; the
/// fact, then the fix.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_ERROR_H
