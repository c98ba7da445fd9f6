// Data structures of OffsetPlanner: where placed blocks lie, and what is free.

#ifndef FSDP_LIB_ANALYSIS_PLACEDBLOCKS_H
#define FSDP_LIB_ANALYSIS_PLACEDBLOCKS_H

#include "fsdp/Analysis/OffsetPlanner.h"

#include <limits>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace fsdp {

/// The free ranges of a memory that grows as needed.
class FreeRanges {
public:
  /// Takes the start of the smallest range of at least `bytes`, and returns its
  /// offset. Where there is none, the memory grows.
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

/// The first byte above all blocks, for each time: a segment tree over the
/// times at which blocks begin.
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
  // By node: the greatest height below it, and a height that everything below
  // it has been set to, but that is not passed down yet.
  std::vector<int64_t> top, pending;
};

/// Placed blocks, sorted by offset. They lie in chunks, so that an insertion
/// moves few of them.
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
    // When any of its blocks is in use. Most chunks have none that is in use
    // with a new block, and are passed over.
    int32_t earliest = std::numeric_limits<int32_t>::max();
    int32_t latest = std::numeric_limits<int32_t>::min();
    // By block. Times are arrays of their own, since a block that is not in use
    // with the new one needs nothing else to be read.
    int32_t first[chunkSize], last[chunkSize];
    int64_t offset[chunkSize], end[chunkSize];
  };
  void insert(const LiveBlock &block, int64_t offset);

  std::vector<std::unique_ptr<Chunk>> chunks;
  size_t count = 0;
};

} // namespace fsdp

#endif // FSDP_LIB_ANALYSIS_PLACEDBLOCKS_H
