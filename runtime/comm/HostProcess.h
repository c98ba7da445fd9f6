#ifndef FSDP_RUNTIME_COMM_HOSTPROCESS_H
#define FSDP_RUNTIME_COMM_HOSTPROCESS_H

#include <cstdint>
#include <string>

namespace fsdp {

/// What only processes that can see each other have in common.
struct HostIdentity {
  std::string boot;
  uint64_t processNamespace = 0;

  bool operator==(const HostIdentity &other) const {
    return boot == other.boot && processNamespace == other.processNamespace;
  }
};

/// Throws Error where /proc does not say.
HostIdentity thisHost();

/// What people call this host.
std::string hostName();

/// What the system says of a process of this host.
enum class ProcessState { Runs, Stopped, Ended };
ProcessState processState(int64_t process);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_HOSTPROCESS_H
