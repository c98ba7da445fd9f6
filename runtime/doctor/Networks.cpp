#include "doctor/Networks.h"

#include "comm/HostProcess.h"

#include <arpa/inet.h>
#include <cstring>
#include <fstream>
#include <ifaddrs.h>
#include <map>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fsdp::doctor {

namespace {

struct Socket {
  explicit Socket(int family, int type) : number(socket(family, type, 0)) {}
  ~Socket() {
    if (number >= 0)
      close(number);
  }
  int number;
};

/// 0: the system does not say.
int mtuOf(const std::string &interface) {
  Socket any(AF_INET, SOCK_DGRAM);
  ifreq request = {};
  std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  return ioctl(any.number, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

int64_t megabitsOf(const std::string &interface) {
  int64_t number = 0;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> number;
  return number > 0 ? number : 0; // one that is not known is -1
}

/// "10.0.0.1" or "fe80::1"; empty: another family's.
std::string textOf(const sockaddr *address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address && address->sa_family == AF_INET)
    inet_ntop(AF_INET,
              &reinterpret_cast<const sockaddr_in *>(address)->sin_addr, text,
              sizeof(text));
  if (address && address->sa_family == AF_INET6)
    inet_ntop(AF_INET6,
              &reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr, text,
              sizeof(text));
  return text;
}

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Found resolve(const std::string &host, const char *port, int type) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = type;
  if (getaddrinfo(host.c_str(), port, &hints, &found) != 0)
    found = nullptr;
  return {found, &freeaddrinfo};
}

} // namespace

std::vector<Interface> findInterfaces() {
  ifaddrs *first = nullptr;
  if (getifaddrs(&first) != 0)
    return {};
  std::map<std::string, Interface> found;
  for (const ifaddrs *entry = first; entry; entry = entry->ifa_next) {
    Interface &interface = found[entry->ifa_name];
    interface.name = entry->ifa_name;
    interface.isUp = entry->ifa_flags & IFF_UP;
    interface.isLoopback = entry->ifa_flags & IFF_LOOPBACK;
    interface.mtu = mtuOf(interface.name);
    interface.megabits = megabitsOf(interface.name);
    if (std::string text = textOf(entry->ifa_addr); !text.empty())
      interface.addresses.push_back(text);
  }
  freeifaddrs(first);
  std::vector<Interface> interfaces;
  for (auto &[name, interface] : found)
    interfaces.push_back(std::move(interface));
  return interfaces;
}

const Interface *interfaceOf(const std::vector<Interface> &interfaces,
                             const std::string &address) {
  if (address.empty())
    return nullptr;
  for (const Interface &interface : interfaces)
    for (const std::string &own : interface.addresses)
      if (own == address)
        return &interface;
  // All of 127.0.0.0/8 is loopback's; Debian gives 127.0.1.1 to a host's name.
  if (address.compare(0, 4, "127.") == 0)
    for (const Interface &interface : interfaces)
      if (interface.isLoopback)
        return &interface;
  return nullptr;
}

std::string listeningAddress(const std::vector<Interface> &interfaces,
                             const std::string &asked) {
  for (const Interface &interface : interfaces)
    if (interface.name == asked && !interface.addresses.empty())
      return interface.addresses.front();
  if (!asked.empty())
    return "";
  Found found = resolve(hostName(), nullptr, SOCK_STREAM);
  for (const addrinfo *at = found.get(); at; at = at->ai_next) {
    Socket probe(at->ai_family, SOCK_STREAM);
    if (bind(probe.number, at->ai_addr, at->ai_addrlen) == 0)
      return textOf(at->ai_addr);
  }
  return "127.0.0.1";
}

std::string addressTowards(const std::string &host) {
  Found found = resolve(host, "1", SOCK_DGRAM);
  for (const addrinfo *at = found.get(); at; at = at->ai_next) {
    Socket probe(at->ai_family, SOCK_DGRAM);
    sockaddr_storage own = {};
    socklen_t size = sizeof(own);
    auto *address = reinterpret_cast<sockaddr *>(&own);
    // Of a datagram's socket it only chooses the way.
    if (connect(probe.number, at->ai_addr, at->ai_addrlen) == 0 &&
        getsockname(probe.number, address, &size) == 0)
      return textOf(address);
  }
  return "";
}

} // namespace fsdp::doctor
