#include "comm/RankWatch.h"

#include "Error.h"
#include "comm/HostProcess.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <sstream>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <unistd.h>

namespace fsdp {

/// Who a rank is: what finds its process, and what people call its host.
struct Introduction {
  HostIdentity host;
  int64_t process = 0;
  std::string name;
};

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string introduce() {
  HostIdentity host;
  try {
    host = thisHost();
  } catch (const Error &) {
    host.boot = "unknown"; // nobody looks up its process then
  }
  std::ostringstream text;
  text << host.boot << ' ' << host.processNamespace << ' ' << getpid() << ' '
       << hostName();
  return text.str();
}

Introduction understand(const std::string &introduction) {
  Introduction result;
  std::istringstream text(introduction);
  text >> result.host.boot >> result.host.processNamespace >> result.process >>
      result.name;
  return result;
}

} // namespace

/// The one that talks to the store, which may keep it waiting for ever: so it
/// shares nothing but this with the others, and none of them waits for it
/// without a limit.
class RankWatch::Thread {
public:
  Thread(c10d::Store &store, int rank, int size)
      : rank(rank), size(size), mine(introduce()),
        store(c10::make_intrusive<c10d::PrefixStore>(
            "watch",
            c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store)->clone())),
        known(size) {
    put("rank", rank, mine);
  }

  void run();

  RankProgress progress;

  // The others' side.
  std::vector<RankState> ask();
  void leaveWord(const std::string &sentence);
  void stay();
  void stop();
  bool endsWithin(milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, limit, [&] { return ended; });
  }

private:
  milliseconds pause() const {
    return std::max(milliseconds(250), milliseconds(size));
  }
  static constexpr milliseconds lingerLimit{2000};
  milliseconds answerLimit() const { return 2 * pause() + milliseconds(1500); }

  static std::string key(const char *what, int64_t number) {
    return std::string(what) + "/" + std::to_string(number);
  }
  std::string answerKey(uint64_t question, int r) const {
    return key("answer", question) + "/" + std::to_string(r);
  }
  void put(const char *what, int64_t number, const std::string &text) {
    store->set(key(what, number), text);
  }
  std::string get(const std::string &key) {
    return store->check({key}) ? store->get_to_str(key) : "";
  }
  void tell(bool &fact) {
    std::lock_guard<std::mutex> lock(mutex);
    fact = true;
    changed.notify_all();
  }
  void answerQuestions();
  void learnOthers();
  void linger();
  std::vector<RankState> askAll();
  void lookAtProcesses(std::vector<RankState> &states) const;
  std::vector<RankState> withoutStore() const;

  const int rank, size;
  const std::string mine;
  // The thread's own, once it runs.
  c10::intrusive_ptr<c10d::Store> store;
  uint64_t question = 1; // the next one

  std::mutex mutex; // of all that follows
  std::condition_variable changed;
  std::vector<Introduction> known; // by rank; written by the thread alone
  std::vector<RankState> states;   // of the last question
  uint64_t asked = 0, answered = 0;
  std::string word; // to be left
  bool wordLeft = false, stayed = false, stopping = false, ended = false;
};

void RankWatch::Thread::run() {
  std::unique_lock<std::mutex> lock(mutex);
  try {
    while (!stopping) {
      changed.wait_for(lock, pause(), [&] {
        return stopping || asked != answered || (!word.empty() && !wordLeft);
      });
      bool isAsked = asked != answered;
      std::string toLeave = wordLeft ? "" : word;
      lock.unlock();
      learnOthers();
      if (!toLeave.empty()) {
        put("word", rank, toLeave);
        tell(wordLeft);
        if (rank == 0)
          linger();
        tell(stayed);
      }
      answerQuestions();
      std::vector<RankState> found;
      if (isAsked)
        found = askAll();
      lock.lock();
      if (isAsked) {
        states = std::move(found);
        answered = asked;
      }
      changed.notify_all();
    }
  } catch (...) { // the store is gone
    if (!lock.owns_lock())
      lock.lock();
  }
  ended = true;
  changed.notify_all();
}

void RankWatch::Thread::answerQuestions() {
  for (; store->check({key("question", question)}); ++question)
    store->set(answerKey(question, rank), packPosition(positionOf(progress)));
}

/// While all is well, so that they are known when nobody can be asked.
void RankWatch::Thread::learnOthers() {
  for (int r = 0; r < size; ++r)
    if (known[r].name.empty()) {
      Introduction other = understand(get(key("rank", r)));
      std::lock_guard<std::mutex> lock(mutex);
      known[r] = other;
    }
}

/// The store may go with this rank. It stays while others may still ask, who
/// waits for them and why it left; those that cannot are not waited for.
void RankWatch::Thread::linger() {
  Clock::time_point limit = Clock::now() + lingerLimit;
  std::vector<RankState> found(size);
  for (;;) {
    lookAtProcesses(found);
    bool anyLeft = false;
    for (int r = 1; r < size; ++r) {
      bool isGone =
          found[r].condition != RankState::Silent ||
          (!states.empty() && states[r].condition != RankState::Answers);
      anyLeft |= !isGone && !store->check({key("word", r)});
    }
    if (!anyLeft || Clock::now() > limit)
      return;
    answerQuestions();
    std::this_thread::sleep_for(milliseconds(10));
  }
}

std::vector<RankState> RankWatch::Thread::askAll() {
  uint64_t number = question;
  put("question", number, "?");
  std::vector<RankState> states(size);
  for (int r = 0; r < size; ++r) {
    states[r].condition = RankState::Silent;
    states[r].host = known[r].name;
    states[r].process = known[r].process;
  }
  auto isOpen = [](const RankState &state) {
    return state.condition == RankState::Silent;
  };
  Clock::time_point limit = Clock::now() + answerLimit();
  for (milliseconds wait(5);; wait = std::min(2 * wait, milliseconds(50))) {
    answerQuestions(); // this one too
    for (int r = 0; r < size; ++r)
      if (isOpen(states[r]) && store->check({answerKey(number, r)})) {
        states[r].condition = RankState::Answers;
        states[r].position =
            unpackPosition(store->get_to_str(answerKey(number, r)));
      } else if (isOpen(states[r]) && store->check({key("word", r)})) {
        states[r].condition = RankState::Left;
      }
    lookAtProcesses(states);
    if (std::none_of(states.begin(), states.end(), isOpen) ||
        Clock::now() > limit)
      break;
    std::this_thread::sleep_for(wait);
  }
  // Whoever ended may have said why before.
  for (int r = 0; r < size; ++r)
    states[r].lastWord = get(key("word", r));
  return states;
}

/// Of this host.
void RankWatch::Thread::lookAtProcesses(std::vector<RankState> &states) const {
  HostIdentity host = understand(mine).host;
  for (int r = 0; r < size; ++r) {
    if (!(known[r].host == host) || host.boot == "unknown" || r == rank)
      continue;
    switch (processState(known[r].process)) {
    case ProcessState::Ended:
      states[r].condition = RankState::Ended;
      break;
    case ProcessState::Stopped:
      states[r].condition = RankState::Stopped;
      break;
    case ProcessState::Runs:
      break;
    }
  }
}

/// What can be known without asking; under the lock.
std::vector<RankState> RankWatch::Thread::withoutStore() const {
  HostIdentity host = understand(mine).host;
  std::vector<RankState> found(size);
  for (int r = 0; r < size; ++r) {
    bool near = r == rank || known[r].host == host;
    found[r].condition = near ? RankState::Near : RankState::Unreachable;
    found[r].host = known[r].name;
    found[r].process = known[r].process;
  }
  lookAtProcesses(found);
  return found;
}

std::vector<RankState> RankWatch::Thread::ask() {
  std::unique_lock<std::mutex> lock(mutex);
  uint64_t number = ++asked;
  changed.notify_all();
  changed.wait_for(lock, answerLimit() + milliseconds(500),
                   [&] { return answered >= number || ended; });
  return answered < number ? withoutStore() : states;
}

void RankWatch::Thread::leaveWord(const std::string &sentence) {
  std::unique_lock<std::mutex> lock(mutex);
  if (!word.empty())
    return;
  word = sentence;
  changed.notify_all();
  changed.wait_for(lock, milliseconds(500), [&] { return wordLeft || ended; });
}

void RankWatch::Thread::stay() {
  std::unique_lock<std::mutex> lock(mutex);
  if (wordLeft)
    changed.wait_for(lock, lingerLimit, [&] { return stayed || ended; });
}

void RankWatch::Thread::stop() {
  std::lock_guard<std::mutex> lock(mutex);
  stopping = true;
  changed.notify_all();
}

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

void RankWatch::leaveWord(const std::string &sentence) {
  if (thread.joinable())
    shared->leaveWord(sentence);
}

void RankWatch::stay() {
  if (thread.joinable())
    shared->stay();
}

} // namespace fsdp
