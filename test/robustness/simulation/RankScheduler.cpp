#include "RankScheduler.h"

#include <algorithm>
#include <cmath>
#include <thread>

namespace fsdp::test {

/// Choices until weights are drawn anew, on average.
static constexpr unsigned longWhile = 200;

RankScheduler::RankScheduler(uint64_t seed, int count)
    : chance(seed), ranks(count) {
  // From all alike to an order of precedence.
  spread = static_cast<double>(chance() % 5);
  drawWeights();
}

double RankScheduler::drawWeight() {
  double between = std::uniform_real_distribution<>(-1, 1)(chance);
  return std::pow(10, spread * between);
}

void RankScheduler::drawWeights() {
  for (Rank &rank : ranks)
    rank.weight = drawWeight();
  for (Known &known : activities)
    known.weight = drawWeight();
}

void RankScheduler::add(Activity &activity) {
  activities.push_back({&activity, drawWeight()});
}

void RankScheduler::drop(Activity &activity) {
  activities.erase(
      std::remove_if(activities.begin(), activities.end(),
                     [&](const Known &k) { return k.activity == &activity; }),
      activities.end());
}

int RankScheduler::next() {
  int count = static_cast<int>(ranks.size());
  while (true) {
    if (chance() % longWhile == 0)
      drawWeights();
    candidates.clear();
    double sum = 0;
    auto consider = [&](double weight, int who) {
      candidates.emplace_back(sum += weight, who);
    };
    bool allEnded = true;
    for (int r = 0; r < count; ++r) {
      allEnded &= ranks[r].ended;
      if (!ranks[r].ended && (stuck || !ranks[r].ready || ranks[r].ready()))
        consider(ranks[r].weight, r);
    }
    if (allEnded)
      return -1;
    for (size_t a = 0; a < activities.size(); ++a)
      if (activities[a].activity->canGoOn())
        consider(activities[a].weight, count + static_cast<int>(a));
    if (candidates.empty()) {
      stuck = true; // and each rank says so
      continue;
    }
    double at = std::uniform_real_distribution<>(0, sum)(chance);
    auto chosen = std::find_if(candidates.begin(), candidates.end() - 1,
                               [&](const auto &c) { return at < c.first; });
    if (chosen->second < count)
      return chosen->second;
    activities[chosen->second - count].activity->goOn(chance);
  }
}

void RankScheduler::pass(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  running = rank;
  if (rank >= 0)
    ranks[rank].turn.notify_one();
}

void RankScheduler::await(int rank, const std::function<bool()> &ready) {
  Rank &mine = ranks[rank];
  ++mine.offers;
  mine.ready = ready;
  if (int other = next(); other != rank) {
    pass(other);
    std::unique_lock<std::mutex> lock(mutex);
    mine.turn.wait(lock, [&] { return running == rank; });
  }
  mine.ready = nullptr;
  if (stuck && ready && !ready())
    throw Deadlock("nobody can go on");
}

void RankScheduler::offer(int rank) { await(rank, nullptr); }

void RankScheduler::run(const std::function<void(int rank)> &body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r)
    threads.emplace_back([&, r] {
      {
        std::unique_lock<std::mutex> lock(mutex);
        ranks[r].turn.wait(lock, [&] { return running == r; });
      }
      body(r);
      ranks[r].ended = true;
      pass(next());
    });
  pass(next());
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace fsdp::test
