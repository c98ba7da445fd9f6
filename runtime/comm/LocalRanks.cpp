#include "comm/LocalRanks.h"

#include "comm/LongWait.h"

namespace fsdp {

LocalRanks::Posts
LocalRanks::exchange(const plan::RankGroup &group, int rank, Post post,
                     const std::function<void()> &whileWaiting) {
  std::unique_lock<std::mutex> lock(mutex);
  throwIfFailed();
  Meeting &meeting = meetings[group];
  auto begin = [&] {
    meeting.posts.assign(group.size, {});
    meeting.posted.assign(group.size, false);
    meeting.missing = group.size;
  };
  if (meeting.posts.empty())
    begin();
  uint32_t index = group.indexOf(rank);
  meeting.posts[index] = std::move(post);
  meeting.posted[index] = true;
  if (--meeting.missing == 0) {
    meeting.result =
        std::make_shared<const std::vector<Post>>(std::move(meeting.posts));
    begin();
    ++meeting.round;
    changed.notify_all();
    return meeting.result;
  }
  uint64_t round = meeting.round;
  while (meeting.round == round) {
    throwIfFailed();
    for (uint32_t i = 0; i < group.size; ++i)
      if (!meeting.posted[i] && left[group[i]])
        throw PeerFailure("rank " + std::to_string(group[i]) + " ended");
    if (!whileWaiting) {
      changed.wait(lock);
      continue;
    }
    changed.wait_for(lock, LongWait::lookAround);
    if (meeting.round != round)
      break;
    // It may ask the others, who meet here too.
    lock.unlock();
    whileWaiting();
    lock.lock();
  }
  // The next round needs this rank too: the result is still this one's.
  return meeting.result;
}

void LocalRanks::leave(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  left[rank] = true;
  changed.notify_all();
}

void LocalRanks::fail(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  if (failed < 0)
    failed = rank;
  changed.notify_all();
}

void LocalRanks::check() const {
  std::lock_guard<std::mutex> lock(mutex);
  throwIfFailed();
}

void LocalRanks::throwIfFailed() const {
  if (failed >= 0)
    throw PeerFailure("rank " + std::to_string(failed) + " failed");
}

} // namespace fsdp
