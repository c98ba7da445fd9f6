#ifndef FSDP_RUNTIME_LAUNCH_ENVIRONMENT_H
#define FSDP_RUNTIME_LAUNCH_ENVIRONMENT_H

#include <functional>
#include <optional>
#include <string>

namespace fsdp {

/// Reads an environment variable; nothing where it is not set or empty.
using Variables =
    std::function<std::optional<std::string>(const std::string &)>;
Variables processVariables();

/// This process among all that train together.
struct Membership {
  int rank = 0;
  int size = 1;
  int localRank = 0;
  /// What said so ("RANK", "SLURM_PROCID", ...); empty: nothing did.
  std::string source;
};

/// What a launcher says: torchrun's variables first, then Open MPI's, PMI's,
/// Slurm's. Throws Error naming the variable when one is missing or is not a
/// number in range.
Membership findMembership(const Variables &variables);

/// Where the ranks meet.
struct MeetingPoint {
  enum class Kind { File, Server };
  Kind kind = Kind::File;
  std::string path; // File
  std::string host; // Server
  int port = 0;
  /// A launcher's own store: no rank serves it.
  bool launcherServes = false;
  /// What only the run's ranks know (see Secret.h); empty: nobody has to know
  /// anything.
  std::string secret;
};

/// Understands env://, tcp://HOST:PORT and file:///PATH, and reads the run's
/// secret. Throws Error.
MeetingPoint parseMeetingPoint(const std::string &url,
                               const Variables &variables);

/// What this run's keys begin with in a store that others may use too.
std::string runKey(const Variables &variables);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_ENVIRONMENT_H
