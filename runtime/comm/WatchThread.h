// For RankWatch.cpp, and WatchThread.cpp.
#ifndef FSDP_RUNTIME_COMM_WATCHTHREAD_H
#define FSDP_RUNTIME_COMM_WATCHTHREAD_H

#include "comm/HostProcess.h"
#include "comm/RankWatch.h"

#include <algorithm>
#include <condition_variable>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace fsdp {

/// Who a rank is: what finds its process, and what people call its host.
struct Introduction {
  HostIdentity host;
  int64_t process = 0;
  std::string name;
};

/// The one that talks to the store, which may keep it waiting for ever: so it
/// shares nothing but this with the others, and none of them waits for it
/// without a limit.
class RankWatch::Thread {
public:
  Thread(c10d::Store &store, int rank, int size);

  void run();

  RankProgress progress;

  // The others' side.
  std::vector<RankState> ask();
  /// What those of a group that have failed said; empty: none has.
  std::string wordOf(const plan::RankGroup &members);
  void leaveWord(const std::string &sentence);
  void stay();
  void stop();
  bool endsWithin(std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, limit, [&] { return ended; });
  }

private:
  std::chrono::milliseconds pause() const {
    return std::max(std::chrono::milliseconds(250),
                    std::chrono::milliseconds(size));
  }
  static constexpr std::chrono::milliseconds lingerLimit{2000};
  std::chrono::milliseconds answerLimit() const {
    return 2 * pause() + std::chrono::milliseconds(1500);
  }

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
  void hearWords();
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
  std::vector<std::string> words;  // by rank, of those that failed; likewise
  std::vector<RankState> states;   // of the last question
  uint64_t asked = 0, answered = 0;
  std::string word; // to be left
  bool wordLeft = false, stayed = false, stopping = false, ended = false;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_WATCHTHREAD_H
