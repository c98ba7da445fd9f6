#include "plan/check/ByteHistory.h"

using namespace fsdp::plan;

/// The range that starts at `at`, cut off from the one before if need be.
ByteHistory::Ranges::iterator ByteHistory::cut(uint64_t at) {
  auto next = ranges.upper_bound(at), it = std::prev(next);
  return it->first == at ? it : ranges.emplace_hint(next, at, it->second);
}

/// Joins like neighbours from the one before `it` to the range that starts at
/// `end`.
void ByteHistory::mend(Ranges::iterator it, uint64_t end) {
  if (it == ranges.begin())
    ++it;
  while (it != ranges.end() && it->first <= end)
    it = it->second == std::prev(it)->second ? ranges.erase(it) : std::next(it);
}

void ByteHistory::write(uint64_t begin, uint64_t end, int64_t owner,
                        Moment when) {
  if (begin >= end)
    return;
  auto past = cut(end), first = cut(begin);
  ranges.erase(std::next(first), past);
  first->second = Entry{owner, when, {}};
  mend(first, end);
}

void ByteHistory::read(uint64_t begin, uint64_t end, Moment when) {
  if (begin >= end)
    return;
  auto past = cut(end), first = cut(begin);
  for (auto it = first; it != past; ++it)
    it->second.read[when.stream] = when.index;
  mend(first, end);
}
