// What has happened when a command runs, and to which bytes.

#include "fsdp/Analysis/CommandOrder.h"

#include <algorithm>
#include <iterator>
#include <tuple>

using namespace mlir;
using namespace fsdp;

// Order

static void joinClock(Clock &clock, const Clock &other) {
  for (uint32_t s = 0; s < kNumStreams; ++s)
    clock[s] = std::max(clock[s], other[s]);
}

void CommandOrder::Knowledge::join(const Knowledge &other) {
  joinClock(here, other.here);
  joinClock(everywhere, other.everywhere);
}

Moment CommandOrder::launch(uint32_t stream) {
  return {stream, ++known[stream].here[stream]};
}

void CommandOrder::meet(uint32_t stream) {
  Clock before = known[stream].here;
  for (uint32_t &index : before)
    ++index;
  joinClock(known[stream].everywhere, before);
}

bool CommandOrder::record(uint64_t event, uint32_t stream) {
  return events.try_emplace(event, known[stream]).second;
}

bool CommandOrder::wait(uint64_t event, uint32_t stream) {
  auto it = events.find(event);
  if (it == events.end())
    return false;
  known[stream].join(it->second);
  return true;
}

void CommandOrder::drain() {
  Knowledge all;
  for (const Knowledge &stream : known)
    all.join(stream);
  known.fill(all);
}

// Bytes

bool ByteTimeline::Entry::operator==(const Entry &other) const {
  auto key = [](const Entry &e) {
    return std::tie(e.owner, e.written.stream, e.written.index, e.read);
  };
  return key(*this) == key(other);
}

ByteTimeline::Ranges::iterator ByteTimeline::cut(uint64_t at) {
  auto it = ranges.lower_bound(at);
  if (it == ranges.begin() || std::prev(it)->second.end <= at)
    return it;
  Range &before = std::prev(it)->second;
  Range after = before;
  before.end = at;
  return ranges.emplace_hint(it, at, after);
}

void ByteTimeline::joinAround(uint64_t begin, uint64_t end) {
  auto it = ranges.lower_bound(begin);
  if (it != ranges.begin())
    --it;
  while (it != ranges.end() && it->first <= end) {
    auto next = std::next(it);
    if (next != ranges.end() && it->second.end == next->first &&
        it->second.entry == next->second.entry) {
      it->second.end = next->second.end;
      ranges.erase(next);
    } else {
      it = next;
    }
  }
}

void ByteTimeline::write(uint64_t begin, uint64_t end, int64_t owner,
                         Moment moment) {
  if (begin >= end)
    return;
  auto first = cut(begin);
  auto last = cut(end);
  ranges.erase(first, last);
  ranges.emplace(begin, Range{end, Entry{owner, moment, {}}});
  joinAround(begin, end);
}

void ByteTimeline::read(uint64_t begin, uint64_t end, Moment moment) {
  if (begin >= end)
    return;
  cut(begin);
  cut(end);
  for (auto it = ranges.lower_bound(begin);
       it != ranges.end() && it->first < end; ++it)
    it->second.entry.read[moment.stream] = moment.index;
  joinAround(begin, end);
}

LogicalResult ByteTimeline::visit(
    uint64_t begin, uint64_t end,
    llvm::function_ref<LogicalResult(const Entry &)> visit) const {
  auto it = ranges.upper_bound(begin);
  if (it != ranges.begin())
    --it;
  for (; begin < end; ++it) {
    if (it == ranges.end() || it->first > begin) {
      if (failed(visit(Entry())))
        return failure();
      if (it == ranges.end())
        return success();
      begin = it->first;
      if (begin >= end)
        return success();
    }
    if (it->second.end <= begin)
      continue;
    if (failed(visit(it->second.entry)))
      return failure();
    begin = it->second.end;
  }
  return success();
}
