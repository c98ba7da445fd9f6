#include "plan/NearestName.h"

#include <algorithm>
#include <numeric>

namespace fsdp {

/// The edits that make `a` of each beginning of `b`, of which the last is all.
static std::vector<unsigned> editsToBeginnings(std::string_view a,
                                               std::string_view b) {
  // Rows of the table of all beginnings: of a's last two letters, and this one.
  std::vector<unsigned> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0u);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<unsigned>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last;
}

unsigned editDistance(std::string_view a, std::string_view b) {
  return editsToBeginnings(a, b).back();
}

static unsigned editsToBeginning(std::string_view a, std::string_view b) {
  std::vector<unsigned> edits = editsToBeginnings(a, b);
  return *std::min_element(edits.begin(), edits.end());
}

std::string nearestHint(std::string_view unknown,
                        const std::vector<std::string> &known) {
  auto nearest = [&](auto distance, size_t most) {
    const std::string *name = nullptr;
    unsigned least = static_cast<unsigned>(most) + 1;
    for (const std::string &one : known)
      if (unsigned edits = distance(unknown, one); edits < least) {
        name = &one;
        least = edits;
      }
    return name;
  };
  const std::string *name = nearest(editDistance, unknown.size() / 2);
  if (!name)
    name = nearest(editsToBeginning, unknown.size() / 4);
  return name ? "; the nearest is " + *name : "";
}

} // namespace fsdp
