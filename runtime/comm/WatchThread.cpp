#include "comm/WatchThread.h"

#include "Error.h"

#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <unistd.h>

namespace fsdp {

using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

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

RankWatch::Thread::Thread(c10d::Store &store, int rank, int size)
    : rank(rank), size(size), mine(introduce()),
      store(c10::make_intrusive<c10d::PrefixStore>(
          "watch",
          c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store)->clone())),
      known(size), words(size) {
  put("rank", rank, mine);
}

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
      hearWords();
      if (!toLeave.empty()) {
        put("word", rank, toLeave);
        store->set("failed", "!");
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

/// Before somebody asks: the store may go with the rank that failed. As long as
/// all is well this is one question.
void RankWatch::Thread::hearWords() {
  if (!store->check({"failed"}))
    return;
  for (int r = 0; r < size; ++r)
    if (words[r].empty()) {
      std::string said = get(key("word", r));
      std::lock_guard<std::mutex> lock(mutex);
      words[r] = said;
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
    found[r].lastWord = words[r];
  }
  lookAtProcesses(found);
  // Nobody can leave a word any more: who ended did so for one that is known.
  auto said = std::find_if(words.begin(), words.end(),
                           [](const auto &word) { return !word.empty(); });
  for (RankState &state : found)
    if (said != words.end() && state.condition == RankState::Ended &&
        state.lastWord.empty())
      state.lastWord = *said;
  return found;
}

std::string RankWatch::Thread::wordOf(const plan::RankGroup &members) {
  std::lock_guard<std::mutex> lock(mutex);
  for (uint32_t i = 0; i < members.size; ++i)
    if (const std::string &word = words[members[i]]; !word.empty())
      return word;
  return "";
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

} // namespace fsdp
