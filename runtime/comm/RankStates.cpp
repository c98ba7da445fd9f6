#include "comm/RankStates.h"

#include "comm/Patience.h"

#include <algorithm>
#include <ctime>
#include <sstream>

namespace fsdp {

bool RankPosition::waits() const {
  return std::any_of(channels.begin(), channels.end(),
                     [](const Channel &c) { return c.awaited != 0; });
}

RankPosition positionOf(const RankProgress &progress) {
  using Clock = RankProgress::Clock;
  auto since = [](Clock::rep begin) {
    Clock::time_point then{Clock::duration(begin)};
    return std::chrono::duration<double>(Clock::now() - then).count();
  };
  RankPosition position;
  position.step = progress.step;
  for (unsigned c = 0; c < numChannels; ++c) {
    const RankProgress::Channel &from = progress.channels[c];
    RankPosition::Channel &to = position.channels[c];
    to.started = from.started;
    to.awaited = from.awaited;
    if (to.started) {
      to.startedName = from.startedName;
      to.startedAgo = since(from.startedAt);
    }
    if (to.awaited) {
      to.awaitedName = from.awaitedName;
      to.awaitedFor = since(from.awaitedSince);
    }
  }
  return position;
}

// A line for the step, and three for each channel: names may contain blanks.
std::string packPosition(const RankPosition &position) {
  std::ostringstream text;
  text << position.step << '\n';
  for (const RankPosition::Channel &c : position.channels)
    text << c.started << ' ' << c.awaited << ' ' << c.startedAgo << ' '
         << c.awaitedFor << '\n'
         << c.startedName << '\n'
         << c.awaitedName << '\n';
  return text.str();
}

std::optional<RankPosition> unpackPosition(const std::string &bytes) {
  std::istringstream text(bytes);
  RankPosition position;
  text >> position.step;
  for (RankPosition::Channel &c : position.channels) {
    text >> c.started >> c.awaited >> c.startedAgo >> c.awaitedFor;
    text.ignore(1);
    std::getline(text, c.startedName);
    std::getline(text, c.awaitedName);
  }
  return text ? std::optional(position) : std::nullopt;
}

/// "rank 1", "ranks 1 and 3", "ranks 1, 2 and 3".
static std::string nameRanks(const std::vector<int> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i)
      text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

static std::string seconds(double time) {
  return inSeconds(std::chrono::milliseconds(static_cast<int64_t>(1e3 * time)));
}

static std::string processOf(const RankState &state) {
  if (state.host.empty())
    return "its process";
  return "its process " + std::to_string(state.process) + " on " + state.host;
}

/// Of a rank that cannot be at work.
static std::string whyGone(const RankState &state) {
  switch (state.condition) {
  case RankState::Ended:
    return processOf(state) + " has ended";
  case RankState::Stopped:
    return processOf(state) + " is stopped";
  case RankState::Silent:
    return processOf(state) + " does not answer: it is stopped, or its host is "
                              "dead or cut off";
  case RankState::Unreachable:
    return processOf(state) + " cannot be asked, nor does the place answer "
                              "where the ranks met: its host, or this one, is "
                              "cut off";
  case RankState::Answers: // in words of another version
  case RankState::Near:
  case RankState::Left:
    break;
  }
  return processOf(state) + " answers what nobody understands";
}

/// Of a rank that is at work, and has not come.
static std::string whyLate(const RankState &state,
                           const AwaitedTransfer &awaited) {
  const RankPosition &at = *state.position;
  std::string text = processOf(state) + " is alive, in step " +
                     std::to_string(at.step) + ", and ";
  for (const RankPosition::Channel &c : at.channels)
    if (c.awaited)
      return text + "waits itself, in " + c.awaitedName;
  const RankPosition::Channel &c = at.channels[awaited.channel];
  if (c.started >= awaited.number)
    return text + "began it " + seconds(c.startedAgo) +
           " ago, but does not go on with it";
  if (!c.started)
    return text + "has not begun any such collective";
  return text + "began its last such collective, " + c.startedName + ", " +
         seconds(c.startedAgo) + " ago";
}

/// How much a rank is to blame; the most comes first.
enum Blame {
  Gone,
  Spoke, // and left, perhaps for another one's sake
  LateMember,
  IdleMember,
  LateElsewhere,
  Waits,
  None
};

static Blame blameOf(int rank, const RankState &state,
                     const AwaitedTransfer &awaited) {
  if (state.condition == RankState::Near)
    return None; // it waits too, as far as is known
  if (!state.lastWord.empty())
    return Spoke;
  if (state.condition != RankState::Answers || !state.position)
    return Gone;
  bool member = awaited.group.contains(rank);
  bool behind =
      state.position->channels[awaited.channel].started < awaited.number;
  // One that waits elsewhere is kept by somebody else.
  if (state.position->waits())
    return member && behind ? Waits : None;
  return !member ? LateElsewhere : behind ? LateMember : IdleMember;
}

Culprits findCulprits(int rank, const AwaitedTransfer &awaited,
                      const std::vector<RankState> &states) {
  std::vector<Blame> blames;
  for (size_t r = 0; r < states.size(); ++r)
    blames.push_back(int(r) == rank ? None : blameOf(r, states[r], awaited));
  Blame worst = *std::min_element(blames.begin(), blames.end());
  Culprits found;
  for (size_t r = 0; r < states.size() && worst != None; ++r) {
    if (blames[r] != worst)
      continue;
    found.ranks.push_back(static_cast<int>(r));
    found.reasons.push_back(worst == Gone ? whyGone(states[r])
                            : worst == Spoke
                                ? processOf(states[r]) +
                                      " has failed: " + states[r].lastWord
                                : whyLate(states[r], awaited));
  }
  return found;
}

/// "17:05:21 UTC".
static std::string timeOfDay(std::chrono::system_clock::time_point time) {
  std::time_t then = std::chrono::system_clock::to_time_t(time);
  std::tm parts;
  gmtime_r(&then, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%H:%M:%S UTC", &parts);
  return text;
}

std::string describeWait(int rank, uint64_t step, double time,
                         const AwaitedTransfer &awaited,
                         const Culprits &culprits) {
  auto since = std::chrono::system_clock::now() -
               std::chrono::milliseconds(static_cast<int64_t>(1e3 * time));
  std::string who = "rank " + std::to_string(rank);
  std::string wait = " for " + seconds(time) + ", since " + timeOfDay(since) +
                     ", in " + awaited.name +
                     (step ? " of step " + std::to_string(step) : "");
  if (culprits.ranks.empty())
    return who + " has waited" + wait +
           ", though every rank has come to it: the network between them is "
           "slow, loses packets or is cut (fsdp-run --doctor tries it)";
  std::string text =
      nameRanks(culprits.ranks) +
      (culprits.ranks.size() == 1 ? " has kept " : " have kept ") + who +
      " waiting" + wait + ": ";
  // Of many ranks the first few tell enough.
  constexpr size_t most = 4;
  for (size_t i = 0; i < std::min(most, culprits.ranks.size()); ++i)
    text += (i ? "; " : "") +
            (culprits.ranks.size() > 1
                 ? "rank " + std::to_string(culprits.ranks[i]) + ": "
                 : "") +
            culprits.reasons[i];
  return text;
}

} // namespace fsdp
