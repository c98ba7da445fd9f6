// Ranks that take turns in an order that follows from a seed alone.
#ifndef FSDP_TEST_SIMULATION_RANKSCHEDULER_H
#define FSDP_TEST_SIMULATION_RANKSCHEDULER_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace fsdp::test {

using Random = std::mt19937_64;

/// Something that goes on beside the ranks: a stream, a transfer on its way.
class Activity {
public:
  virtual ~Activity() = default;
  virtual bool canGoOn() const = 0;
  /// One small part of it. Throws nothing.
  virtual void goOn(Random &random) = 0;
};

/// Nobody can go on, and not all ranks are through.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The adversary. Each rank is a thread, since PyTorch keeps much by thread,
/// and one of them runs at a time: it has the turn until it offers it. Who is
/// next, a rank or an activity, is drawn from a seed, by weights of very
/// different size that are drawn anew from time to time: so some ranks and
/// streams are much slower than others for a while, or stand still as long as
/// others go on.
class RankScheduler {
public:
  RankScheduler(uint64_t seed, int ranks);

  /// Runs `body` as each rank. Returns when all have ended; it throws nothing.
  void run(const std::function<void(int rank)> &body);

  /// A rank may be overtaken here.
  void offer(int rank);
  /// A rank goes on when `ready`, which others make true. Throws Deadlock.
  void await(int rank, const std::function<bool()> &ready);

  /// `activity` lives as long as this, or until it is dropped.
  void add(Activity &activity);
  void drop(Activity &activity);

  /// Times that a rank has offered or awaited the turn so far.
  uint64_t offers(int rank) const { return ranks[rank].offers; }
  Random &random() { return chance; }

private:
  struct Rank {
    std::function<bool()> ready; // null: it can go on
    bool ended = false;
    uint64_t offers = 0;
    double weight = 1;
    std::condition_variable turn;
  };
  struct Known {
    Activity *activity;
    double weight;
  };

  double drawWeight();
  void drawWeights();
  /// Lets activities go on until a rank is to; -1: all have ended.
  int next();
  void pass(int rank);

  Random chance;
  double spread; // of weights, in powers of ten
  std::vector<Rank> ranks;
  std::vector<Known> activities;
  std::vector<std::pair<double, int>> candidates; // activities behind ranks
  bool stuck = false;
  std::mutex mutex; // of who runs
  int running = -1;
};

} // namespace fsdp::test

#endif // FSDP_TEST_SIMULATION_RANKSCHEDULER_H
