#ifndef FSDP_RUNTIME_COMM_HOSTPROCESS_H
#define FSDP_RUNTIME_COMM_HOSTPROCESS_H

#include <cstdint>
#include <string>
#include <vector>

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

/// "rank 3", or "rank 3 on node-b" where ranks are on several hosts. `hosts`
/// are what people call them, by rank.
std::string rankAmong(const std::vector<std::string> &hosts, int rank);

/// What the system says of a process of this host.
enum class ProcessState { Runs, Stopped, Ended };
ProcessState processState(int64_t process);

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_HOSTPROCESS_H
