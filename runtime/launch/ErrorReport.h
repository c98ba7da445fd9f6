#ifndef FSDP_RUNTIME_LAUNCH_ERRORREPORT_H
#define FSDP_RUNTIME_LAUNCH_ERRORREPORT_H

#include "Error.h"

#include <optional>
#include <string>

namespace fsdp {

/// Why a rank stopped.
struct RankError {
  std::string message;
  E kind = E::Unexpected;
  /// Another rank failed first: its error is the one to read.
  bool consequence = false;
};

/// Of the exception that is being handled. Its message is one line.
RankError describeCurrentError();

/// What a rank leaves for the process that supervises it, in `file`.
void leaveError(const std::string &file, const RankError &error);
std::optional<RankError> collectError(const std::string &file);

/// Writes torchrun's error file (TORCHELASTIC_ERROR_FILE), if there is to be
/// one; its agent reads the message and the time from it, and takes the error
/// with the least time for the root cause.
void writeLauncherErrorFile(const RankError &error);

/// Prints `error: ...`, with the identifier behind it, on one line of standard
/// error; `rank` is shown where it is not negative.
void printError(const std::string &message, E kind, int rank = -1);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_ERRORREPORT_H
