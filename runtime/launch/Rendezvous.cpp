#include "launch/Rendezvous.h"

#include "Error.h"
#include "comm/HostProcess.h"
#include "launch/ListeningSocket.h"
#include "launch/SealedStore.h"
#include "launch/Secret.h"
#include "plan/FormatText.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

namespace fs = std::filesystem;

namespace fsdp {

namespace {

using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// What to look at where nobody comes to an address that each host has.
std::string adviceOnHost(const std::string &host) {
  if (host != "localhost" && host.rfind("127.", 0) != 0 && host != "::1")
    return "";
  return "; " + host +
         " is this host itself: ranks of other hosts need an address that they "
         "reach (--master-addr or MASTER_ADDR)";
}

} // namespace

const char *const largePacketsAdvice =
    "are large packets lost on the way? 'ping -M do -s 1472 HOST' tells, for "
    "an MTU of 1500; set the one that gets through on all hosts (ip link set "
    "dev NAME mtu N)";

class Meeting::Place {
public:
  Place(const Membership &me, const MeetingPoint &where,
        const std::string &runKey, std::chrono::seconds timeout)
      : me(me), where(where), timeout(timeout),
        deadline(Clock::now() + timeout), store(open()) {
    keys = c10::make_intrusive<c10d::PrefixStore>(
        runKey, where.secret.empty() ? store : sealStore(store, where.secret));
  }

  void agree(const Agreement &agreement);
  std::vector<std::string> exchange(const std::string &what,
                                    const std::string &mine);
  Connection connect(const CommOptions &options);
  void close();
  void waitUpTo(std::chrono::seconds limit) {
    timeout = limit;
    deadline = Clock::now() + limit;
  }

private:
  StorePtr open();
  static std::string key(const std::string &what, int rank) {
    return what + "/" + std::to_string(rank);
  }
  std::chrono::milliseconds left() const {
    auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    return std::max(rest, std::chrono::milliseconds(1));
  }
  std::string name() const {
    return where.kind == MeetingPoint::Kind::File
               ? where.path
               : where.host + ":" + std::to_string(where.port);
  }
  void put(const std::string &key, const std::string &text) {
    keys->set(key, std::vector<uint8_t>(text.begin(), text.end()));
  }
  Error otherSecret(int rank) const;
  std::vector<int> absent(const std::string &what);
  bool haveJoined(const std::vector<int> &some);
  void waitForAll(const std::string &what);
  /// For a rank that ends: gives the others a moment to say `what`.
  void leaveAfter(const std::string &what);

  Membership me;
  MeetingPoint where;
  std::chrono::seconds timeout;
  Clock::time_point deadline;
  StorePtr store, keys;
  bool oneHost = true;
};

StorePtr Meeting::Place::open() {
  if (where.kind == MeetingPoint::Kind::File) {
    // A c10d FileStore tries for minutes to open a file that cannot be there.
    fs::path folder = fs::absolute(where.path).parent_path();
    if (access(folder.c_str(), W_OK | X_OK) != 0)
      throw Error(E::MeetingFailed,
                  "cannot meet in file " + where.path + ": folder " +
                      folder.string() +
                      " is not there, or cannot be written; make it");
    try {
      return c10::make_intrusive<c10d::FileStore>(where.path, me.size);
    } catch (const std::exception &error) {
      throw Error(E::MeetingFailed, "cannot meet in file " + where.path + ": " +
                                        firstLine(error.what()));
    }
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(where.port);
  options.isServer = me.rank == 0 && !where.launcherServes;
  options.waitWorkers = false;
  // A process that meets again, or whose own process group meets there too,
  // has one server.
  options.multiTenant = options.isServer;
  options.timeout = left();
  // Where this cannot be, c10d listens on all addresses, or says why not.
  if (options.isServer)
    options.masterListenFd = listenAt(where.host, where.port);
  try {
    return c10::make_intrusive<c10d::TCPStore>(where.host, options);
  } catch (const std::exception &error) {
    std::string text = error.what();
    if (options.isServer && (text.find("EADDRINUSE") != std::string::npos ||
                             text.find("in use") != std::string::npos))
      throw Error(
          E::PortInUse,
          "port " + std::to_string(where.port) +
              " is in use on this host; choose another one (--rendezvous, "
              "--master-port or MASTER_PORT)");
    if (options.isServer)
      throw Error(E::MeetingFailed, "cannot serve the rendezvous at " + name() +
                                        ": " + firstLine(error.what()));
    throw Error(
        E::RanksMissing,
        std::string(where.launcherServes ? "the launcher's store" : "rank 0") +
            " did not answer at " + name() + " within " +
            std::to_string(timeout.count()) + " s: " + firstLine(error.what()) +
            adviceOnHost(where.host));
  }
}

std::vector<int> Meeting::Place::absent(const std::string &what) {
  std::vector<int> ranks;
  for (int r = 0; r < me.size; ++r)
    if (!keys->check({key(what, r)}))
      ranks.push_back(r);
  return ranks;
}

bool Meeting::Place::haveJoined(const std::vector<int> &some) {
  return std::all_of(some.begin(), some.end(),
                     [&](int r) { return keys->check({key("joined", r)}); });
}

void Meeting::Place::waitForAll(const std::string &what) {
  std::vector<std::string> all;
  for (int r = 0; r < me.size; ++r)
    all.push_back(key(what, r));
  try {
    keys->wait(all, left());
  } catch (const std::exception &error) {
    std::vector<int> missing;
    try {
      missing = absent(what);
    } catch (const std::exception &lost) {
      throw Error(E::MeetingFailed, "lost the rendezvous at " + name() + ": " +
                                        firstLine(lost.what()));
    }
    if (missing.empty())
      return;
    // The file stays: a c10d FileStore that finds it gone waits for ever.
    std::string list;
    for (size_t i = 0; i < missing.size(); ++i)
      list += (i ? ", rank " : "rank ") + std::to_string(missing[i]);
    std::string late = list + " of " + std::to_string(me.size);
    std::string within = " within " + std::to_string(timeout.count()) + " s; ";
    if (haveJoined(missing))
      throw Error(E::Network, late + " came to " + name() +
                                  ", but what it says did not" + within +
                                  largePacketsAdvice);
    throw Error(E::RanksMissing,
                late + " did not arrive at " + name() + within +
                    "start every rank, or raise --rendezvous-timeout" +
                    adviceOnHost(where.host));
  }
}

void Meeting::Place::agree(const Agreement &agreement) {
  if (keys->add(key("joined", me.rank), 1) != 1)
    throw Error(E::MeetingFailed,
                "rank " + std::to_string(me.rank) + " has met at " + name() +
                    " before; start each rank once, and remove a file that an "
                    "earlier run left");
  nlohmann::json hello = {{"host", hostName()},
                          {"agree", nlohmann::json::object()}};
  for (const auto &[name, value] : agreement)
    hello["agree"][name] = value;
  std::vector<nlohmann::json> all;
  std::vector<std::string> hosts;
  for (const std::string &text : exchange("hello", hello.dump())) {
    all.push_back(nlohmann::json::parse(text, nullptr,
                                        /*allow_exceptions=*/false));
    if (!all.back().is_object() || !all.back().contains("agree"))
      throw Error(
          E::RanksDiffer,
          "rank " + std::to_string(all.size() - 1) +
              " says nothing that this fsdp-run understands; run the same "
              "version everywhere, and give all ranks the same secret");
    hosts.push_back(all.back().value("host", ""));
    oneHost = oneHost && hosts.back() == hosts.front();
  }
  for (int r = 1; r < me.size; ++r)
    for (const auto &[name, value] : agreement) {
      std::string first = all[0]["agree"].value(name, "unknown");
      std::string other = all[r]["agree"].value(name, "unknown");
      if (first != other)
        throw Error(E::RanksDiffer,
                    rankAmong(hosts, 0) + " and " + rankAmong(hosts, r) +
                        " have a different " + name + ": " + first + " and " +
                        other + "; give all ranks the same");
    }
}

void Meeting::Place::leaveAfter(const std::string &what) {
  waitUpTo(std::min(timeout, std::chrono::seconds(2)));
  try {
    waitForAll(what);
  } catch (const Error &) { // a stranger reads nothing
  }
}

Error Meeting::Place::otherSecret(int rank) const {
  return Error(E::Secret, "what rank " + std::to_string(rank) + " says at " +
                              name() + " is not sealed with rank " +
                              std::to_string(me.rank) +
                              "'s secret; give all ranks the same " +
                              secretVariable + " or " + secretFileVariable +
                              " (if they have it, a stranger writes there)");
}

std::vector<std::string> Meeting::Place::exchange(const std::string &what,
                                                  const std::string &mine) {
  put(key(what, me.rank), mine);
  waitForAll(what);
  std::vector<std::string> all(me.size);
  std::optional<Error> broken;
  for (int r = 0; r < me.size; ++r)
    try {
      all[r] = keys->get_to_str(key(what, r));
    } catch (const BrokenSeal &) {
      broken = otherSecret(r);
    }
  // Rank 0 may be serving: nobody leaves, not even with an error, before all
  // have read.
  put(key(what + "/read", me.rank), "1");
  if (broken) {
    leaveAfter(what + "/read");
    throw *broken;
  }
  try {
    waitForAll(what + "/read");
  } catch (const Error &error) {
    // Rank 0 served the place, and has left with what it read: so does this
    // rank, who says more by it than that the place is gone.
    if (error.kind != E::MeetingFailed)
      throw;
  }
  return all;
}

void Meeting::Place::close() {
  put(key("closed", me.rank), "1");
  if (me.rank == 0)
    waitForAll("closed");
}

Connection Meeting::Place::connect(const CommOptions &options) {
  GlooAddress address;
  address.loopback = oneHost;
  if (const char *name = std::getenv("GLOO_SOCKET_IFNAME"))
    address.interface = name;
  Connection result = connectRanks(*keys, me.rank, me.size, options, address);
  result.meetingPoint = std::make_shared<StorePtr>(store);
  return result;
}

/// c10d's errors are of several lines, and no Error.
template <typename Call> static auto atMeeting(Call call) {
  try {
    return call();
  } catch (const c10::Error &error) {
    throw Error(E::MeetingFailed,
                "the rendezvous failed: " + firstLine(error.what()));
  }
}

Meeting::Meeting(const Membership &me, const MeetingPoint &where,
                 const std::string &runKey, std::chrono::seconds timeout)
    : place(atMeeting([&] {
        return std::make_unique<Place>(me, where, runKey, timeout);
      })) {}

Meeting::~Meeting() = default;

void Meeting::agree(const Agreement &agreement) {
  atMeeting([&] { place->agree(agreement); });
}

std::vector<std::string> Meeting::exchange(const std::string &what,
                                           const std::string &mine,
                                           std::chrono::seconds timeout) {
  place->waitUpTo(timeout);
  return atMeeting([&] { return place->exchange(what, mine); });
}

Connection Meeting::connect(const CommOptions &options) {
  return atMeeting([&] { return place->connect(options); });
}

void Meeting::close(std::chrono::seconds timeout) {
  place->waitUpTo(timeout);
  atMeeting([&] { place->close(); });
}

Connection meet(const Membership &me, const MeetingPoint &where,
                const std::string &runKey, const Agreement &agreement,
                const CommOptions &options, std::chrono::seconds timeout) {
  Meeting meeting(me, where, runKey, timeout);
  meeting.agree(agreement);
  return meeting.connect(options);
}

} // namespace fsdp
