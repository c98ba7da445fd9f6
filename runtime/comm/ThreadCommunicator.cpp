#include "comm/ThreadCommunicator.h"

#include "comm/Reduce.h"

#include <algorithm>
#include <cstring>

namespace fsdp {

void ThreadGroup::arriveAndWait() {
  std::unique_lock<std::mutex> lock(mutex);
  if (aborted)
    throw PeerFailure(reason);
  if (++arrived == size) {
    arrived = 0;
    ++generation;
    changed.notify_all();
    return;
  }
  uint64_t mine = generation;
  changed.wait(lock, [&] { return generation != mine || aborted; });
  if (generation == mine)
    throw PeerFailure(reason);
}

void ThreadGroup::abort(const std::string &why) {
  std::lock_guard<std::mutex> lock(mutex);
  if (aborted)
    return;
  aborted = true;
  reason = why;
  changed.notify_all();
}

void ThreadCommunicator::show(const void *buffer) {
  group->slots[myRank] = buffer;
  group->arriveAndWait();
}

std::vector<const void *> ThreadCommunicator::shown(size_t offset) const {
  std::vector<const void *> result;
  for (const void *slot : group->slots)
    result.push_back(static_cast<const char *>(slot) + offset);
  return result;
}

void ThreadCommunicator::allGather(const void *send, void *receive,
                                   size_t count, plan::DType dtype) {
  size_t bytes = count * plan::dtypeBytes(dtype);
  show(send);
  for (int r = 0; r < size(); ++r) {
    char *to = static_cast<char *>(receive) + r * bytes;
    if (to != group->slots[r])
      std::memcpy(to, group->slots[r], bytes);
  }
  barrier();
}

void ThreadCommunicator::reduceScatter(const void *send, void *receive,
                                       size_t count, plan::DType dtype) {
  show(send);
  // Only this rank reads its part of any source, so it may overwrite its own.
  sumInOrder(receive, shown(myRank * count * plan::dtypeBytes(dtype)), count,
             dtype);
  barrier();
}

void ThreadCommunicator::allReduce(const void *send, void *receive,
                                   size_t count, plan::DType dtype) {
  size_t bytes = plan::dtypeBytes(dtype);
  size_t part = (count + size() - 1) / size();
  auto begin = [&](int r) { return std::min(count, r * part); };
  auto length = [&](int r) { return begin(r + 1) - begin(r); };
  // Each rank sums its part aside, since `receive` may be `send`.
  std::vector<char> &mine = group->scratch[myRank];
  mine.resize(length(myRank) * bytes);
  show(send);
  sumInOrder(mine.data(), shown(begin(myRank) * bytes), length(myRank), dtype);
  barrier();
  for (int r = 0; r < size(); ++r)
    if (length(r))
      std::memcpy(static_cast<char *>(receive) + begin(r) * bytes,
                  group->scratch[r].data(), length(r) * bytes);
  barrier();
}

void ThreadCommunicator::broadcast(void *buffer, size_t count,
                                   plan::DType dtype, int root) {
  show(buffer);
  if (myRank != root)
    std::memcpy(buffer, group->slots[root], count * plan::dtypeBytes(dtype));
  barrier();
}

} // namespace fsdp
