// What OffsetPlanner asks about the blocks it has placed.

#ifndef FSDP_LIB_ANALYSIS_PLACEDBLOCKS_H
#define FSDP_LIB_ANALYSIS_PLACEDBLOCKS_H

#include "fsdp/Analysis/OffsetPlanner.h"

#include <limits>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace fsdp {

/// Ranges that nobody uses now, in memory without an end.
class FreeRanges {
public:
  /// The start of the smallest range of at least `bytes`; the end is moved
  /// where there is none.
  int64_t take(int64_t bytes);
  void release(int64_t offset, int64_t bytes);
  int64_t getEnd() const { return end; }

private:
  void add(int64_t offset, int64_t bytes);
  void remove(std::map<int64_t, int64_t>::iterator range);

  std::map<int64_t, int64_t> byOffset; // to bytes
  std::set<std::pair<int64_t, int64_t>> bySize;
  int64_t end = 0;
};

/// For each time the first byte above all blocks: a tree over the times at
/// which blocks begin.
class Skyline {
public:
  explicit Skyline(llvm::ArrayRef<LiveBlock> blocks);
  /// Puts a block on top of what is in use with it; returns its offset.
  int64_t raise(const LiveBlock &block);

private:
  int64_t highest(size_t node, size_t begin, size_t end, size_t from,
                  size_t to) const;
  void set(size_t node, size_t begin, size_t end, size_t from, size_t to,
           int64_t height);

  std::vector<int64_t> times;
  // Of a node: the highest below it, and what all below it has been set to
  // since they were.
  std::vector<int64_t> top, pending;
};

/// Placed blocks by offset, in chunks, so that one more moves few.
class PlacedBlocks {
public:
  /// Puts a block in the tightest gap between those that are in use with it, or
  /// behind them; returns its offset. Looks at every block.
  int64_t place(const LiveBlock &block);
  size_t size() const { return count; }

private:
  static constexpr size_t chunkSize = 256;
  struct Chunk {
    size_t size = 0;
    // When any of its blocks is in use: in most chunks none is with a new one.
    int32_t earliest = std::numeric_limits<int32_t>::max();
    int32_t latest = std::numeric_limits<int32_t>::min();
    // Of each block. Times stand apart: they are all that is looked at of a
    // block that is not in use with the new one.
    int32_t first[chunkSize], last[chunkSize];
    int64_t offset[chunkSize], end[chunkSize];
  };
  void insert(const LiveBlock &block, int64_t offset);

  std::vector<std::unique_ptr<Chunk>> chunks;
  size_t count = 0;
};

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_PLACEDBLOCKS_H
