// Who wrote which bytes, and who read them since: what two commands that touch
// the same bytes must be ordered for.
#ifndef FSDP_PLAN_CHECK_BYTEHISTORY_H
#define FSDP_PLAN_CHECK_BYTEHISTORY_H

#include "plan/check/HappensBefore.h"

#include <iterator>
#include <map>

namespace fsdp::plan {

/// For every byte of an arena, the last write and the reads after it. Ranges
/// that are alike are kept as one, so a program costs about as many steps as it
/// names ranges.
class ByteHistory {
public:
  /// Nobody has written the byte yet.
  static constexpr int64_t nobody = -1;

  struct Entry {
    int64_t owner = nobody;
    Moment written;
    Clock read{}; // the last read by each stream
    bool operator==(const Entry &other) const {
      return owner == other.owner && written.stream == other.written.stream &&
             written.index == other.written.index && read == other.read;
    }
  };

  ByteHistory() { ranges[0] = Entry(); }

  /// `owner` writes the bytes [begin, end); who read them before is forgotten.
  void write(uint64_t begin, uint64_t end, int64_t owner, Moment when);

  /// The bytes [begin, end) are read.
  void read(uint64_t begin, uint64_t end, Moment when);

  /// Calls `fn(entry)` for each range of like bytes in [begin, end).
  template <typename Fn> void visit(uint64_t begin, uint64_t end, Fn fn) const {
    if (begin >= end)
      return;
    for (auto it = std::prev(ranges.upper_bound(begin));
         it != ranges.end() && it->first < end; ++it)
      fn(it->second);
  }

private:
  using Ranges = std::map<uint64_t, Entry>; // by first byte, each to the next
  Ranges::iterator cut(uint64_t at);
  void mend(Ranges::iterator first, uint64_t end);
  Ranges ranges;
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_BYTEHISTORY_H
