#include "plan/NearestName.h"

#include <algorithm>
#include <numeric>

namespace fsdp {

unsigned editDistance(std::string_view a, std::string_view b) {
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
  return last.back();
}

std::string nearestHint(std::string_view unknown,
                        const std::vector<std::string> &known) {
  const std::string *nearest = nullptr;
  unsigned least = static_cast<unsigned>(unknown.size() / 2) + 1;
  for (const std::string &name : known)
    if (unsigned distance = editDistance(unknown, name); distance < least) {
      nearest = &name;
      least = distance;
    }
  return nearest ? "; the nearest is " + *nearest : "";
}

} // namespace fsdp
