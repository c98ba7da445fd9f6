#include "comm/RankWatch.h"

#include "Error.h"
#include "comm/WatchThread.h"

#include <algorithm>

namespace fsdp {

RankWatch::RankWatch(c10d::Store &store, int rank, int size,
                     const Patience &patience)
    : rank(rank), size(size), limits(patience),
      shared(std::make_shared<Thread>(store, rank, size)) {
  if (size > 1)
    thread = std::thread([shared = shared] { shared->run(); });
}

RankWatch::~RankWatch() {
  if (!thread.joinable())
    return;
  shared->stop();
  if (shared->endsWithin(std::chrono::seconds(2)))
    thread.join();
  else
    thread.detach(); // the store has it, and may keep it
}

RankProgress &RankWatch::progress() { return shared->progress; }

RankWatch::Heard RankWatch::lastHeard() {
  std::lock_guard<std::mutex> lock(mutex);
  return heard;
}

Culprits RankWatch::ask(const AwaitedTransfer &awaited) {
  std::vector<RankState> states = shared->ask();
  Culprits culprits = findCulprits(rank, awaited, states);
  std::lock_guard<std::mutex> lock(mutex);
  heard = {std::move(states), culprits.ranks};
  return culprits;
}

RankWatch::Heard RankWatch::hear() {
  if (thread.joinable() && lastHeard().states.empty()) {
    RankPosition here = positionOf(progress());
    AwaitedTransfer awaited = {"", 0, 0, {0, 1, uint32_t(size)}};
    for (unsigned c = 0; c < numChannels; ++c)
      if (here.channels[c].awaited)
        awaited = {"", c, here.channels[c].awaited, awaited.group};
    ask(awaited);
  }
  return lastHeard();
}

double RankWatch::waitedFor(const AwaitedTransfer &awaited) {
  return positionOf(progress()).channels[awaited.channel].awaitedFor;
}

void RankWatch::note(const AwaitedTransfer &awaited) {
  if (!limits.note)
    return;
  Culprits culprits = ask(awaited);
  limits.note(describeWait(rank, progress().step, waitedFor(awaited), awaited,
                           culprits));
}

PeerFailure RankWatch::failure(const AwaitedTransfer &awaited,
                               const std::string &broken) {
  double waited = waitedFor(awaited);
  Culprits culprits = ask(awaited);
  const std::vector<RankState> states = lastHeard().states;
  // Who went without a word is the first of all that went.
  for (int r : culprits.ranks)
    if (states[r].condition == RankState::Ended && states[r].lastWord.empty())
      return PeerFailure("rank " + std::to_string(r) +
                         " ended without a word, in " +
                         std::string(awaited.name));
  bool spoke = std::any_of(culprits.ranks.begin(), culprits.ranks.end(),
                           [&](int r) { return !states[r].lastWord.empty(); });
  if (spoke || culprits.ranks.empty())
    for (const RankState &state : states)
      if (!state.lastWord.empty())
        return PeerFailure(state.lastWord);
  bool isStopped =
      std::any_of(culprits.ranks.begin(), culprits.ranks.end(), [&](int r) {
        return states[r].condition == RankState::Stopped;
      });
  if (!broken.empty() && !awaited.number && !isStopped)
    return PeerFailure("rank " + std::to_string(rank) +
                           " cannot connect to all other ranks (" + broken +
                           "); give each host an interface that the others "
                           "reach (GLOO_SOCKET_IFNAME), as fsdp-run --doctor "
                           "names it",
                       E::MeetingFailed);
  bool isLate = waited * 1000 >= limits.limit.count();
  if (!broken.empty() && culprits.ranks.empty() && !isLate)
    return PeerFailure("lost the connection to another rank, in " +
                       std::string(awaited.name) + ": " + broken);
  return PeerFailure(
      describeWait(rank, progress().step, waited, awaited, culprits),
      E::PeerSilent);
}

void RankWatch::requireComing(const plan::RankGroup &members) {
  if (std::string word = shared->wordOf(members); !word.empty())
    throw PeerFailure(word);
}

void RankWatch::leaveWord(const std::string &sentence) {
  if (thread.joinable())
    shared->leaveWord(sentence);
}

void RankWatch::stay() {
  if (thread.joinable())
    shared->stay();
}

} // namespace fsdp
