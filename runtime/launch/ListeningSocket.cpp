#include "launch/ListeningSocket.h"

#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fsdp {

static std::optional<int> listenAt(const addrinfo &address) {
  int one = 1;
  int made = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0)
    return std::nullopt;
  // A run may start again while the last one's connections are still closing.
  if (setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
      bind(made, address.ai_addr, address.ai_addrlen) == 0 &&
      listen(made, SOMAXCONN) == 0)
    return made;
  close(made);
  return std::nullopt;
}

std::optional<int> listenAt(const std::string &host, int port) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted,
                  &found) != 0)
    return std::nullopt;
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (addrinfo *address = found; address; address = address->ai_next)
    if (auto made = listenAt(*address))
      return made;
  return std::nullopt;
}

bool isKnown(const std::string &host) {
  addrinfo *found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0)
    return false;
  freeaddrinfo(found);
  return true;
}

} // namespace fsdp
