#ifndef FSDP_RUNTIME_DOCTOR_NETWORKS_H
#define FSDP_RUNTIME_DOCTOR_NETWORKS_H

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::doctor {

struct Interface {
  std::string name;
  std::vector<std::string> addresses;
  int mtu = 0;
  bool isUp = false, isLoopback = false;
  int64_t megabits = 0; // per second; 0: the system does not say
};

/// This host's, by name.
std::vector<Interface> findInterfaces();

/// The one that has an address; null: none does.
const Interface *interfaceOf(const std::vector<Interface> &interfaces,
                             const std::string &address);

/// Where Gloo listens for the other ranks of several hosts: an address of
/// `asked` (GLOO_SOCKET_IFNAME), else the first one of this host's name that is
/// this host's, else loopback, as ProcessGroupGloo::createDefaultDevice
/// chooses. Empty: `asked` is no interface with an address.
std::string listeningAddress(const std::vector<Interface> &interfaces,
                             const std::string &asked);

/// The address of this host by which it reaches `host`; empty: it does not.
/// Sends nothing.
std::string addressTowards(const std::string &host);

} // namespace fsdp::doctor

#endif // FSDP_RUNTIME_DOCTOR_NETWORKS_H
