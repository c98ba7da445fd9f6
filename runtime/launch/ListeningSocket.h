#ifndef FSDP_RUNTIME_LAUNCH_LISTENINGSOCKET_H
#define FSDP_RUNTIME_LAUNCH_LISTENINGSOCKET_H

#include <optional>
#include <string>

namespace fsdp {

/// A TCP socket that listens on `port` of the address that `host` (a name or a
/// number) stands for, and on no other address of this host. Its descriptor
/// belongs to the caller. Nothing where that cannot be: the port is in use, or
/// no address of `host` is one of this host's, as behind a translated address.
std::optional<int> listenAt(const std::string &host, int port);

/// Whether this host has an address for that name or number.
bool isKnown(const std::string &host);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_LISTENINGSOCKET_H
