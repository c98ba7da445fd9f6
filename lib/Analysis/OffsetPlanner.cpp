// Offsets for blocks that come and go.

#include "fsdp/Analysis/OffsetPlanner.h"
#include "PlacedBlocks.h"

#include "plan/PlanTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

using namespace fsdp;

static constexpr int64_t alignment = fsdp::plan::placeAlignment;

static int64_t rounded(const LiveBlock &block) {
  return llvm::alignTo(static_cast<uint64_t>(block.bytes), alignment);
}

OffsetPlan fsdp::planApart(llvm::ArrayRef<LiveBlock> blocks) {
  OffsetPlan plan;
  for (const LiveBlock &block : blocks) {
    plan.offsets.push_back(plan.bytes);
    plan.bytes += rounded(block);
  }
  return plan;
}

int64_t fsdp::getPeakBytes(llvm::ArrayRef<LiveBlock> blocks) {
  std::map<int64_t, int64_t> changes;
  for (const LiveBlock &block : blocks) {
    changes[block.first] += rounded(block);
    changes[block.last + 1] -= rounded(block);
  }
  int64_t now = 0, peak = 0;
  for (auto [time, change] : changes)
    peak = std::max(peak, now += change);
  return peak;
}

namespace {

using Order = std::vector<uint32_t>;

/// Searches for a plan, and keeps the best.
class Packer {
public:
  explicit Packer(llvm::ArrayRef<LiveBlock> given)
      : least(getPeakBytes(given)), best(planApart(given)) {
    for (auto [i, block] : llvm::enumerate(given)) {
      if (!block.bytes) {
        best.offsets[i] = 0;
        continue;
      }
      blocks.push_back({block.first, block.last, rounded(block)});
      indices.push_back(i);
    }
    offsets.resize(blocks.size());
  }

  OffsetPlan run() {
    placeByTime();
    std::vector<Order> orders = makeOrders();
    for (const Order &order : orders)
      if (!done())
        stack(order);
    const Order *winner = nullptr;
    std::vector<int64_t> current;
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (const Order &order : orders)
      if (std::optional<int64_t> bytes = fill(order, fewest - 1)) {
        winner = &order;
        current = offsets;
        fewest = *bytes;
      }
    if (winner)
      climb(*winner, std::move(current), fewest);
    return best;
  }

private:
  /// Whether no plan can take so much less that a search is worth it.
  bool done() const { return best.bytes - least <= least / 4096; }

  /// Makes `offsets` the best plan if they take fewer bytes than it.
  void keep(int64_t bytes) {
    if (bytes >= best.bytes)
      return;
    best.bytes = bytes;
    for (auto [index, offset] : llvm::zip_equal(indices, offsets))
      best.offsets[index] = offset;
  }

  template <typename Key> Order sortedBy(Key key) {
    Order order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
      return key(blocks[a]) > key(blocks[b]);
    });
    return order;
  }

  std::vector<Order> makeOrders() {
    auto lifetime = [](const LiveBlock &b) { return b.last - b.first + 1; };
    return {sortedBy([](const LiveBlock &b) { return b.bytes; }),
            sortedBy([&](const LiveBlock &b) {
              return static_cast<double>(b.bytes) * lifetime(b);
            }),
            sortedBy([&](const LiveBlock &b) {
              return std::make_pair(lifetime(b), b.bytes);
            })};
  }

  /// Places blocks as a best-fit allocator would: each takes the smallest free
  /// range that holds it when its life begins.
  void placeByTime() {
    Order coming = sortedBy(
        [](const LiveBlock &b) { return std::make_pair(-b.first, b.bytes); });
    Order going = sortedBy([](const LiveBlock &b) { return -b.last; });
    FreeRanges free;
    auto next = going.begin();
    for (uint32_t i : coming) {
      for (; blocks[*next].last < blocks[i].first; ++next)
        free.release(offsets[*next], blocks[*next].bytes);
      offsets[i] = free.take(blocks[i].bytes);
    }
    keep(free.getEnd());
  }

  /// Puts each block on top of all blocks that are in use with it. That is best
  /// where lifetimes are nested, as those of a step's forward and backward
  /// nearly are.
  void stack(const Order &order) {
    Skyline skyline(blocks);
    int64_t bytes = 0;
    for (uint32_t i : order) {
      offsets[i] = skyline.raise(blocks[i]);
      bytes = std::max(bytes, offsets[i] + blocks[i].bytes);
    }
    keep(bytes);
  }

  /// Puts each block into the tightest gap, and returns the bytes that takes.
  /// Returns nothing where they are more than `limit`, where the best plan is
  /// good enough, or where the effort is spent.
  std::optional<int64_t> fill(const Order &order, int64_t limit) {
    size_t pairs = order.size() * order.size() / 2;
    if (done() || pairs > effort)
      return std::nullopt;
    PlacedBlocks placed;
    int64_t bytes = 0;
    for (uint32_t i : order) {
      effort -= placed.size();
      offsets[i] = placed.place(blocks[i]);
      bytes = std::max(bytes, offsets[i] + blocks[i].bytes);
      if (bytes > limit)
        return std::nullopt;
    }
    keep(bytes);
    return bytes;
  }

  /// Hill climbing over orders, from one that gives the offsets `current` and
  /// takes `bytes`. A try moves one block forward: in turn one that reaches the
  /// end of the memory, and any block. What takes no more bytes is kept.
  void climb(Order order, std::vector<int64_t> current, int64_t bytes) {
    std::mt19937 random(1);
    auto pick = [&](size_t n) { return random() % n; };
    for (int tries = 0; tries < 400 && !done(); ++tries) {
      std::vector<size_t> highest;
      for (auto [at, i] : llvm::enumerate(order))
        if (current[i] + blocks[i].bytes == bytes)
          highest.push_back(at);
      size_t from = tries % 2 || highest.empty()
                        ? pick(order.size())
                        : highest[pick(highest.size())];
      Order changed = order;
      auto begin = changed.begin();
      std::rotate(begin + pick(from + 1), begin + from, begin + from + 1);
      std::optional<int64_t> now = fill(changed, bytes);
      if (!now)
        continue;
      if (*now < bytes)
        tries = 0;
      order = std::move(changed);
      current = offsets;
      bytes = *now;
    }
  }

  int64_t least;
  OffsetPlan best;
  std::vector<LiveBlock> blocks;
  std::vector<size_t> indices; // of each block among those given
  std::vector<int64_t> offsets;
  /// How many pairs of blocks may still be compared: about a second's worth.
  size_t effort = 1'500'000'000;
};

} // namespace

OffsetPlan fsdp::planBest(llvm::ArrayRef<LiveBlock> blocks) {
  return Packer(blocks).run();
}
