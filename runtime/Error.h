#ifndef FSDP_RUNTIME_ERROR_H
#define FSDP_RUNTIME_ERROR_H

#include <cstdint>
#include <stdexcept>
#include <string>

namespace fsdp {

/// What kind of error it is: an entry of Errors.def, which says its cause and
/// how to mend it. The build takes names and numbers from there alone, so that
/// other words compile one file.
enum class E : uint16_t {
#include "ErrorKinds.inc"
};

/// "FSDP-E0101".
std::string identifierOf(E kind);

/// `message` as it is printed: with its identifier behind it, as in
/// "there is no flag --step [FSDP-E0101]".
std::string withIdentifier(const std::string &message, E kind);

/// The paragraph of an identifier, as `--explain` prints it. Throws Error where
/// there is no such identifier. "FSDP-" may be left out.
std::string explainError(const std::string &identifier);

/// What every exception of ours has.
struct Identified {
  explicit Identified(E kind) : kind(kind) {}
  E kind;
};

/// What a user reads after `error: `: lower case, one line, no full stop; the
/// fact, then the fix. The identifier is no part of what(), so that one error
/// can quote another: it is put behind where an error is printed.
struct Error : std::runtime_error, Identified {
  Error(E kind, const std::string &message)
      : std::runtime_error(message), Identified(kind) {}
};

/// Of any exception: its own, or what stands for those that libraries throw.
E kindOf(const std::exception &error);

} // namespace fsdp

#endif // FSDP_RUNTIME_ERROR_H
