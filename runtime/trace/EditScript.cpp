// Myers, "An O(ND) Difference Algorithm and Its Variations", 1986.

#include "trace/EditScript.h"

#include <algorithm>

namespace fsdp::trace {

using Pairs = std::vector<std::pair<size_t, size_t>>;

namespace {

/// How far paths of each number of edits reach, by diagonal: position in
/// `before` minus position in `after`.
class Frontiers {
public:
  Frontiers(const std::vector<std::string> &before,
            const std::vector<std::string> &after)
      : before(before), after(after) {}

  /// Whether some path of at most `most` edits reaches both ends.
  bool search(size_t most) {
    for (int edits = 0; edits <= static_cast<int>(most); ++edits) {
      reached.emplace_back(2 * edits + 1);
      for (int diagonal = -edits; diagonal <= edits; diagonal += 2)
        if (extend(edits, diagonal))
          return true;
    }
    return false;
  }

  /// What the path that search() found keeps.
  Pairs keptPairs() const {
    Pairs kept;
    int x = before.size(), y = after.size();
    for (int edits = static_cast<int>(reached.size()) - 1; edits >= 0;
         --edits) {
      int diagonal = x - y;
      auto [startX, fromDiagonal] = startOf(edits, diagonal);
      while (x > startX && y > startX - diagonal)
        kept.emplace_back(--x, --y);
      if (edits == 0)
        break;
      x = at(edits - 1, fromDiagonal);
      y = x - fromDiagonal;
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

private:
  int at(int edits, int diagonal) const {
    return reached[edits][diagonal + edits];
  }

  /// Where the last edit leads, and the diagonal that it comes from.
  std::pair<int, int> startOf(int edits, int diagonal) const {
    if (edits == 0)
      return {0, 0};
    bool inserts = diagonal == -edits ||
                   (diagonal != edits &&
                    at(edits - 1, diagonal - 1) < at(edits - 1, diagonal + 1));
    return inserts ? std::pair(at(edits - 1, diagonal + 1), diagonal + 1)
                   : std::pair(at(edits - 1, diagonal - 1) + 1, diagonal - 1);
  }

  bool extend(int edits, int diagonal) {
    int x = startOf(edits, diagonal).first, y = x - diagonal;
    int width = before.size(), height = after.size();
    while (x < width && y < height && before[x] == after[y])
      ++x, ++y;
    reached[edits][diagonal + edits] = x;
    return x >= width && y >= height;
  }

  const std::vector<std::string> &before, &after;
  std::vector<std::vector<int>> reached; // by edits, then by diagonal
};

} // namespace

std::optional<Pairs> commonSubsequence(const std::vector<std::string> &before,
                                       const std::vector<std::string> &after,
                                       size_t most) {
  Frontiers frontiers(before, after);
  if (!frontiers.search(std::min(most, before.size() + after.size())))
    return std::nullopt;
  return frontiers.keptPairs();
}

} // namespace fsdp::trace
