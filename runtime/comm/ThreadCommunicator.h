#ifndef FSDP_RUNTIME_COMM_THREADCOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_THREADCOMMUNICATOR_H

#include "comm/Communicator.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace fsdp {

/// What the ranks of one process share: a barrier that can be aborted, and a
/// slot per rank in which it shows the others its buffer.
class ThreadGroup {
public:
  explicit ThreadGroup(int size) : size(size), slots(size), scratch(size) {}

  /// Returns when all ranks have called it; throws PeerFailure once aborted.
  void arriveAndWait();
  void abort(const std::string &reason);

  const int size;
  std::vector<const void *> slots;
  std::vector<std::vector<char>> scratch;

private:
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  uint64_t generation = 0;
  bool aborted = false;
  std::string reason;
};

/// Ranks as threads of one process: each reads the others' buffers directly.
class ThreadCommunicator : public Communicator {
public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : group(std::move(group)), myRank(rank) {}

  int rank() const override { return myRank; }
  int size() const override { return group->size; }
  void allGather(const void *send, void *receive, size_t count,
                 plan::DType dtype) override;
  void reduceScatter(const void *send, void *receive, size_t count,
                     plan::DType dtype) override;
  void allReduce(const void *send, void *receive, size_t count,
                 plan::DType dtype) override;
  void broadcast(void *buffer, size_t count, plan::DType dtype,
                 int root) override;
  void barrier() override { group->arriveAndWait(); }
  void abort(const std::string &reason) override { group->abort(reason); }

private:
  /// Shows `buffer` to all ranks and waits for theirs.
  void show(const void *buffer);
  /// Every rank's buffer, `offset` bytes in.
  std::vector<const void *> shown(size_t offset) const;

  std::shared_ptr<ThreadGroup> group;
  int myRank;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_THREADCOMMUNICATOR_H
