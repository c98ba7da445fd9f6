#include "launch/Rendezvous.h"

#include "Error.h"
#include "FlagOrArgument.h"
#include "comm/HostProcess.h"
#include "launch/LimitedCall.h"
#include "launch/MeetingStore.h"
#include "launch/SealedStore.h"
#include "launch/Secret.h"
#include "plan/FormatText.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace fsdp {

using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// Beyond the limit of what is waited for: for a rank that finds out who is
/// missing, or that serves the place and waits to be heard.
static constexpr std::chrono::seconds toEnd(5);

/// What a rank says first.
static constexpr char hello[] = "hello";

/// Begins what is said in place of that where a rank does not come.
static constexpr char declined[] = "declined: ";

const char *const largePacketsAdvice =
    "are large packets lost on the way? 'ping -M do -s 1472 HOST' tells, for "
    "an MTU of 1500; set the one that gets through on all hosts (ip link set "
    "dev NAME mtu N)";

class Meeting::Place {
public:
  Place(const Membership &me, const MeetingPoint &where,
        const std::string &runKey, std::chrono::seconds timeout)
      : me(me), where(where), timeout(timeout),
        deadline(Clock::now() + timeout),
        store(openMeetingStore(me, where, timeout)) {
    keys = c10::make_intrusive<c10d::PrefixStore>(
        runKey, where.secret.empty() ? store : sealStore(store, where.secret));
  }

  void agree(const Agreement &agreement);
  std::vector<std::string> exchange(const std::string &what,
                                    const std::string &mine);
  Connection connect(const CommOptions &options);
  void close();
  void decline(const std::string &why, int ranks);
  void waitUpTo(std::chrono::seconds limit) {
    timeout = limit;
    deadline = Clock::now() + limit;
  }
  Clock::time_point limit() const { return deadline; }
  std::string name() const { return nameOf(where); }

private:
  static std::string key(const std::string &what, int rank) {
    return what + "/" + std::to_string(rank);
  }
  std::chrono::milliseconds left() const {
    auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    return std::max(rest, std::chrono::milliseconds(1));
  }
  void put(const std::string &key, const std::string &text) {
    keys->set(key, std::vector<uint8_t>(text.begin(), text.end()));
  }
  Error otherSecret(int rank) const;
  std::vector<int> absent(const std::string &what);
  bool haveJoined(const std::vector<int> &some);
  void waitForAll(const std::string &what);
  /// For a rank that ends: gives the others a moment to say `what`, where the
  /// place is gone with it.
  void leaveAfter(const std::string &what, std::chrono::seconds moment);

  Membership me;
  MeetingPoint where;
  std::chrono::seconds timeout;
  Clock::time_point deadline;
  StorePtr store, keys;
  bool oneHost = true;
};

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
                    "start every rank, or raise " +
                    flagOrArgument("--rendezvous-timeout", "meeting_timeout=") +
                    adviceOnHost(where));
  }
}

void Meeting::Place::agree(const Agreement &agreement) {
  if (keys->add(key("joined", me.rank), 1) != 1)
    throw Error(E::MeetingFailed,
                "rank " + std::to_string(me.rank) + " has met at " + name() +
                    " before; start each rank once, and remove a file that an "
                    "earlier run left");
  nlohmann::json greeting = {{"host", hostName()},
                             {"agree", nlohmann::json::object()}};
  for (const auto &[name, value] : agreement)
    greeting["agree"][name] = value;
  std::vector<nlohmann::json> all;
  std::vector<std::string> hosts;
  for (const std::string &text : exchange(hello, greeting.dump())) {
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

void Meeting::Place::leaveAfter(const std::string &what,
                                std::chrono::seconds moment) {
  if (!serves(me, where))
    return;
  waitUpTo(moment);
  try {
    waitForAll(what);
  } catch (const Error &) { // late ranks, and strangers, read nothing
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
  std::exception_ptr refused;
  for (int r = 0; r < me.size; ++r)
    try {
      all[r] = keys->get_to_str(key(what, r));
      if (all[r].rfind(declined, 0) == 0)
        refused = std::make_exception_ptr(
            PeerFailure(all[r].substr(std::strlen(declined))));
    } catch (const BrokenSeal &) {
      refused = std::make_exception_ptr(otherSecret(r));
    }
  // Rank 0 may be serving: nobody leaves, not even with an error, before all
  // have read.
  put(key(what + "/read", me.rank), "1");
  if (refused) {
    leaveAfter(what + "/read", std::min(timeout, toBeHeard));
    std::rethrow_exception(refused);
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

void Meeting::Place::decline(const std::string &why, int ranks) {
  std::string text =
      declined + ("rank " + std::to_string(me.rank) + " on " + hostName() +
                  " failed before it met the others: " + why);
  // In the name of those too that are yet to come: nobody waits for them.
  for (int r = 0; r < me.size; ++r)
    put(key(hello, r), text);
  for (int r = me.rank; r < me.rank + ranks; ++r)
    put(key(hello + std::string("/read"), r), "1");
  leaveAfter(hello + std::string("/read"), timeout);
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

/// c10d waits for ever for who serves the place, and is stopped or cut off.
template <typename Call>
static auto upTo(Clock::time_point limit, const std::string &name, Call call) {
  return atMeeting([&] {
    return callUpTo(limit + toEnd, std::move(call), [&] {
      return Error(E::MeetingFailed,
                   "the rendezvous at " + name +
                       " does not answer; is the process that serves it "
                       "stopped, or its host dead or cut off?");
    });
  });
}

Meeting::Meeting(const Membership &me, const MeetingPoint &where,
                 const std::string &runKey, std::chrono::seconds timeout)
    : place(atMeeting([&] {
        return std::make_shared<Place>(me, where, runKey, timeout);
      })) {}

void Meeting::agree(const Agreement &agreement) {
  upTo(place->limit(), place->name(),
       [place = place, agreement] { place->agree(agreement); });
}

std::vector<std::string> Meeting::exchange(const std::string &what,
                                           const std::string &mine,
                                           std::chrono::seconds timeout) {
  place->waitUpTo(timeout);
  return upTo(place->limit(), place->name(), [place = place, what, mine] {
    return place->exchange(what, mine);
  });
}

Connection Meeting::connect(const CommOptions &options) {
  return upTo(Clock::now() + options.patience.limit, place->name(),
              [place = place, options] { return place->connect(options); });
}

void Meeting::close(std::chrono::seconds timeout) {
  place->waitUpTo(timeout);
  upTo(place->limit(), place->name(), [place = place] { place->close(); });
}

void Meeting::decline(const std::string &why, int ranks) {
  upTo(place->limit(), place->name(),
       [place = place, why, ranks] { place->decline(why, ranks); });
}

Connection meet(const Membership &me, const MeetingPoint &where,
                const std::string &runKey, const Agreement &agreement,
                const CommOptions &options, std::chrono::seconds timeout) {
  Meeting meeting(me, where, runKey, timeout);
  meeting.agree(agreement);
  return meeting.connect(options);
}

void declineToMeet(const Membership &me, const MeetingPoint &where,
                   const std::string &runKey, const std::string &why, int ranks,
                   std::chrono::seconds patience) {
  try {
    Meeting(me, where, runKey, patience).decline(why, ranks);
  } catch (const std::exception &) { // nobody is there
  }
}

} // namespace fsdp
