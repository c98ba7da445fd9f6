// The ranks of imitated NCCL communicators, and how they meet.
#ifndef FSDP_TEST_IMITATION_CLIQUES_H
#define FSDP_TEST_IMITATION_CLIQUES_H

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <string>
#include <vector>

namespace fsdp::imitation {

enum class CallKind { AllGather, ReduceScatter, AllReduce, Group };

/// A send or a receive of a group.
struct Message {
  int peer;
  const void *from; // null: it receives
  void *to;
  size_t bytes;
};

/// What one rank launches.
struct Call {
  CallKind kind;
  const void *from;
  void *to;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op; // ncclSum or ncclMax
  /// Of `type`: every number is multiplied by it first; empty: it is not.
  std::string factor;
  std::vector<Message> messages; // of a group, which alone has them
};

/// Carries out a transfer of all ranks, in rank order. Returns what they did
/// not agree on; then nothing is moved.
std::string perform(const std::vector<Call> &calls);

/// Where the ranks of a communicator meet.
class Clique : public std::enable_shared_from_this<Clique> {
public:
  explicit Clique(int size) : size(size) {}
  const int size;

  /// The order in which transfers run: of all that were launched, or of those
  /// that a graph runs again and again.
  struct Turns {
    size_t total = 0, over = 0;
  };

  /// A rank: its communicator, and what its streams still have of it.
  struct Seat {
    std::shared_ptr<Clique> clique;
    int rank;
    std::map<std::shared_ptr<void>, std::shared_ptr<Turns>> turns; // by capture
    size_t transfers = 0, splits = 0;
    bool aborted = false;
    ncclResult_t state = ncclSuccess;
    std::string message;
  };

  std::shared_ptr<Seat> seat(int rank);

  /// Waits until all ranks have one; false: some rank was taken already.
  bool take(int rank);

  /// The next of the turns.
  size_t enter(Turns &turns);

  /// The seat's transfer, on a stream: waits for its turn and the others.
  void meet(Seat &seat, Turns &turns, size_t turn, const Call &call);

  /// A clique for the ranks with the same color, in the order of their keys.
  /// Waits for all ranks; null when aborted meanwhile.
  std::shared_ptr<Seat> split(Seat &seat, int color, int key);

  /// The seat's transfers end; those that others wait for never take place.
  void abort(Seat &seat);
  void fail(Seat &seat, ncclResult_t state, const std::string &message);
  ncclResult_t stateOf(const Seat &seat, std::string &message);

private:
  struct Meeting {
    std::map<int, Call> calls;
    bool over = false, deserted = false;
    std::string error;
  };
  struct Division {
    std::map<int, std::pair<int, int>> wishes; // by rank: color and key
    std::map<int, std::shared_ptr<Clique>> made;
  };
  using Lock = std::unique_lock<std::mutex>;

  std::mutex mutex;
  std::condition_variable changed;
  std::map<size_t, Meeting> meetings;
  std::map<size_t, Division> divisions;
  std::map<int, bool> taken;
};

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_CLIQUES_H
