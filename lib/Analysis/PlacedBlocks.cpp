// What OffsetPlanner asks about the blocks it has placed.

#include "PlacedBlocks.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace fsdp;

// Free ranges

int64_t FreeRanges::take(int64_t bytes) {
  auto fitting = bySize.lower_bound({bytes, 0});
  if (fitting != bySize.end()) {
    auto [size, offset] = *fitting;
    remove(byOffset.find(offset));
    if (size > bytes)
      add(offset + bytes, size - bytes);
    return offset;
  }
  // The last range may reach the end and be made longer.
  int64_t offset = end;
  if (!byOffset.empty()) {
    auto last = std::prev(byOffset.end());
    if (last->first + last->second == end) {
      offset = last->first;
      remove(last);
    }
  }
  end = offset + bytes;
  return offset;
}

void FreeRanges::release(int64_t offset, int64_t bytes) {
  auto next = byOffset.lower_bound(offset);
  if (next != byOffset.end() && next->first == offset + bytes) {
    bytes += next->second;
    remove(next);
  }
  auto after = byOffset.lower_bound(offset);
  if (after != byOffset.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      remove(before);
    }
  }
  add(offset, bytes);
}

void FreeRanges::add(int64_t offset, int64_t bytes) {
  byOffset[offset] = bytes;
  bySize.insert({bytes, offset});
}

void FreeRanges::remove(std::map<int64_t, int64_t>::iterator range) {
  bySize.erase({range->second, range->first});
  byOffset.erase(range);
}

// Skyline

Skyline::Skyline(llvm::ArrayRef<LiveBlock> blocks) {
  // Two blocks are in use at one time when they are where one of them begins.
  for (const LiveBlock &block : blocks)
    times.push_back(block.first);
  llvm::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  top.assign(4 * times.size() + 4, 0);
  pending.assign(top.size(), 0);
}

int64_t Skyline::raise(const LiveBlock &block) {
  size_t from = llvm::lower_bound(times, block.first) - times.begin();
  size_t to = llvm::upper_bound(times, block.last) - times.begin();
  int64_t offset = highest(1, 0, times.size(), from, to);
  set(1, 0, times.size(), from, to, offset + block.bytes);
  return offset;
}

int64_t Skyline::highest(size_t node, size_t begin, size_t end, size_t from,
                         size_t to) const {
  if (to <= begin || end <= from)
    return 0;
  if (from <= begin && end <= to)
    return top[node];
  size_t middle = (begin + end) / 2;
  // What was set here since holds below too: heights only grow.
  return std::max({pending[node], highest(2 * node, begin, middle, from, to),
                   highest(2 * node + 1, middle, end, from, to)});
}

void Skyline::set(size_t node, size_t begin, size_t end, size_t from, size_t to,
                  int64_t height) {
  if (to <= begin || end <= from)
    return;
  top[node] = std::max(top[node], height);
  if (from <= begin && end <= to) {
    pending[node] = std::max(pending[node], height);
    return;
  }
  size_t middle = (begin + end) / 2;
  set(2 * node, begin, middle, from, to, height);
  set(2 * node + 1, middle, end, from, to, height);
}

// Placed blocks

int64_t PlacedBlocks::place(const LiveBlock &block) {
  int64_t need = block.bytes, end = 0, best = -1;
  int64_t bestGap = std::numeric_limits<int64_t>::max();
  int32_t first = block.first, last = block.last;
  for (const std::unique_ptr<Chunk> &chunk : chunks) {
    if (chunk->earliest > last || chunk->latest < first)
      continue;
    for (size_t i = 0; i < chunk->size; ++i) {
      if (chunk->first[i] > last || chunk->last[i] < first)
        continue;
      int64_t gap = chunk->offset[i] - end;
      if (gap >= need && gap < bestGap) {
        best = end;
        bestGap = gap;
      }
      end = std::max(end, chunk->end[i]);
    }
  }
  int64_t offset = best < 0 ? end : best;
  insert(block, offset);
  return offset;
}

void PlacedBlocks::insert(const LiveBlock &block, int64_t offset) {
  ++count;
  if (chunks.empty())
    chunks.push_back(std::make_unique<Chunk>());
  // The last chunk that begins at or below the offset.
  auto it = std::upper_bound(
      chunks.begin() + 1, chunks.end(), offset,
      [](int64_t o, const auto &chunk) { return o < chunk->offset[0]; });
  Chunk *chunk = std::prev(it)->get();
  auto moveTail = [](Chunk &from, size_t at, Chunk &to, size_t into) {
    size_t n = from.size - at;
    std::memmove(to.first + into, from.first + at, n * sizeof(int32_t));
    std::memmove(to.last + into, from.last + at, n * sizeof(int32_t));
    std::memmove(to.offset + into, from.offset + at, n * sizeof(int64_t));
    std::memmove(to.end + into, from.end + at, n * sizeof(int64_t));
  };
  auto noteTimes = [](Chunk &of) {
    of.earliest = *std::min_element(of.first, of.first + of.size);
    of.latest = *std::max_element(of.last, of.last + of.size);
  };
  if (chunk->size == chunkSize) {
    auto upper = std::make_unique<Chunk>();
    constexpr size_t half = chunkSize / 2;
    moveTail(*chunk, half, *upper, 0);
    upper->size = chunkSize - half;
    chunk->size = half;
    noteTimes(*chunk);
    noteTimes(*upper);
    Chunk *second = chunks.insert(it, std::move(upper))->get();
    if (second->offset[0] <= offset)
      chunk = second;
  }
  size_t at =
      std::upper_bound(chunk->offset, chunk->offset + chunk->size, offset) -
      chunk->offset;
  moveTail(*chunk, at, *chunk, at + 1);
  chunk->first[at] = block.first;
  chunk->last[at] = block.last;
  chunk->offset[at] = offset;
  chunk->end[at] = offset + block.bytes;
  chunk->earliest = std::min(chunk->earliest, chunk->first[at]);
  chunk->latest = std::max(chunk->latest, chunk->last[at]);
  ++chunk->size;
}
