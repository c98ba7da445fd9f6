#include "comm/HostProcess.h"

#include "Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace fsdp {

HostIdentity thisHost() {
  HostIdentity host;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> host.boot;
  struct stat found;
  if (host.boot.empty() || stat("/proc/self/ns/pid", &found) != 0)
    throw Error(E::System,
                std::string("cannot tell from /proc which host this is: ") +
                    std::strerror(errno));
  host.processNamespace = found.st_ino;
  return host;
}

std::string hostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string rankAmong(const std::vector<std::string> &hosts, int rank) {
  bool several =
      std::any_of(hosts.begin(), hosts.end(), [&](const std::string &host) {
        return host != hosts.front();
      });
  return "rank " + std::to_string(rank) +
         (several ? " on " + hosts.at(rank) : "");
}

ProcessState processState(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  // "PID (NAME) STATE ...", where a name may contain anything.
  size_t name = text.rfind(')');
  if (name == std::string::npos || name + 2 >= text.size())
    return ProcessState::Ended;
  switch (text[name + 2]) {
  case 'T':
  case 't':
    return ProcessState::Stopped;
  case 'Z':
  case 'X':
    return ProcessState::Ended;
  default:
    return ProcessState::Runs;
  }
}

} // namespace fsdp
