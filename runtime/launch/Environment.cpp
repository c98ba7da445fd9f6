#include "launch/Environment.h"

#include "Error.h"
#include "FlagOrArgument.h"
#include "launch/Secret.h"

#include <cstdlib>
#include <limits>

namespace fsdp {

Variables processVariables() {
  return [](const std::string &name) -> std::optional<std::string> {
    const char *value = std::getenv(name.c_str());
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  };
}

static int parseNumber(const std::string &text, const std::string &what,
                       int limit, E kind = E::Environment) {
  char *end = nullptr;
  long number = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end || number < 0 || number > limit)
    throw Error(kind, what + " is '" + text + "', not a number from 0 to " +
                          std::to_string(limit));
  return static_cast<int>(number);
}

Membership findMembership(const Variables &variables) {
  struct Names {
    const char *rank, *size, *local;
  };
  static constexpr Names launchers[] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}};
  for (const Names &names : launchers) {
    auto rank = variables(names.rank), size = variables(names.size);
    if (!rank && !size)
      continue;
    if (!rank || !size)
      throw Error(E::Environment,
                  std::string(rank ? names.rank : names.size) + " is set but " +
                      (rank ? names.size : names.rank) +
                      " is not; set both, or " +
                      flagOrArgument("start ranks with --nproc", "neither"));
    Membership result;
    result.source = names.rank;
    result.size = parseNumber(*size, names.size, 1 << 20);
    if (result.size == 0)
      throw Error(E::Environment,
                  std::string(names.size) + " is 0; a run has at least 1 rank");
    result.rank = parseNumber(*rank, names.rank, 1 << 20);
    if (result.rank >= result.size)
      throw Error(E::Environment, std::string(names.rank) + " is " + *rank +
                                      ", but there are " + *size + " ranks (" +
                                      names.size + "); ranks count from 0");
    if (auto local = variables(names.local))
      result.localRank = parseNumber(*local, names.local, 1 << 20);
    return result;
  }
  return {};
}

MeetingPoint parseMeetingPoint(const std::string &url,
                               const Variables &variables) {
  MeetingPoint result;
  result.secret = findSecret(variables);
  auto rest = [&](const std::string &scheme) -> std::optional<std::string> {
    if (url.compare(0, scheme.size(), scheme) != 0)
      return std::nullopt;
    return url.substr(scheme.size());
  };
  if (auto path = rest("file://")) {
    if (path->empty() || (*path)[0] != '/')
      throw Error(E::MeetingPlace,
                  "rendezvous " + url +
                      " has no absolute path; write file:///PATH");
    result.path = *path;
    return result;
  }
  result.kind = MeetingPoint::Kind::Server;
  if (auto address = rest("tcp://")) {
    size_t colon = address->rfind(':');
    if (colon == std::string::npos || colon == 0)
      throw Error(E::MeetingPlace,
                  "rendezvous " + url +
                      " has no host and port; write tcp://HOST:PORT");
    result.host = address->substr(0, colon);
    if (result.host.front() == '[' && result.host.back() == ']')
      result.host = result.host.substr(1, result.host.size() - 2);
    result.port =
        parseNumber(address->substr(colon + 1), "the port of rendezvous " + url,
                    65535, E::MeetingPlace);
  } else if (rest("env://")) {
    auto host = variables("MASTER_ADDR"), port = variables("MASTER_PORT");
    if (!host || !port)
      throw Error(E::MeetingPlace,
                  std::string(host ? "MASTER_PORT" : "MASTER_ADDR") +
                      " is not set, so the ranks cannot meet; set it or pass " +
                      flagOrArgument("--rendezvous ", "rendezvous=") +
                      "tcp://HOST:PORT or file:///PATH");
    result.host = *host;
    result.port = parseNumber(*port, "MASTER_PORT", 65535);
    auto served = variables("TORCHELASTIC_USE_AGENT_STORE");
    result.launcherServes = served && *served == "True";
  } else {
    throw Error(E::MeetingPlace,
                "rendezvous " + url +
                    " is not understood; write env://, tcp://HOST:PORT or "
                    "file:///PATH");
  }
  if (result.port == 0)
    throw Error(E::MeetingPlace,
                "rendezvous port 0 means nothing to the other ranks; choose "
                "one from 1 to 65535");
  return result;
}

std::string runKey(const Variables &variables) {
  return "fsdp-run/" + variables("TORCHELASTIC_RUN_ID").value_or("default") +
         "/" + variables("TORCHELASTIC_RESTART_COUNT").value_or("0");
}

} // namespace fsdp
