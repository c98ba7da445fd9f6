#include "plan/ByteOwners.h"

#include <iterator>

using namespace fsdp::plan;

void ByteOwners::write(uint64_t begin, uint64_t end, int64_t owner) {
  if (begin >= end)
    return;
  auto it = ranges.upper_bound(begin);
  if (it != ranges.begin() && std::prev(it)->second.end > begin) {
    // A range starts before `begin` and reaches into it: cut it there.
    it = std::prev(it);
    Range old = it->second;
    if (it->first < begin) {
      it->second.end = begin;
      it = ranges.emplace(begin, old).first;
    }
  }
  while (it != ranges.end() && it->first < end) {
    if (it->second.end > end)
      ranges.emplace(end, it->second);
    it = ranges.erase(it);
  }
  // Neighbours of one owner become one range, so that a buffer filled piece by
  // piece stays cheap to ask about.
  if (auto next = ranges.find(end);
      next != ranges.end() && next->second.owner == owner) {
    end = next->second.end;
    ranges.erase(next);
  }
  it = ranges.lower_bound(begin);
  if (it != ranges.begin() && std::prev(it)->second.end == begin &&
      std::prev(it)->second.owner == owner)
    std::prev(it)->second.end = end;
  else
    ranges.emplace(begin, Range{end, owner});
}

std::optional<int64_t> ByteOwners::firstOther(uint64_t begin, uint64_t end,
                                              int64_t owner) const {
  auto it = ranges.upper_bound(begin);
  if (it != ranges.begin())
    --it;
  for (; begin < end; ++it) {
    if (it == ranges.end() || it->first > begin)
      return nobody;
    if (it->second.end <= begin)
      continue;
    if (it->second.owner != owner)
      return it->second.owner;
    begin = it->second.end;
  }
  return std::nullopt;
}

std::optional<int64_t> ByteOwners::firstOwner(uint64_t begin,
                                              uint64_t end) const {
  auto it = ranges.upper_bound(begin);
  if (it != ranges.begin() && std::prev(it)->second.end > begin)
    --it;
  if (begin >= end || it == ranges.end() || it->first >= end)
    return std::nullopt;
  return it->second.owner;
}
