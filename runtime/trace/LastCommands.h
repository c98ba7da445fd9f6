// What a rank did last, for the day on which it ends badly.
#ifndef FSDP_RUNTIME_TRACE_LASTCOMMANDS_H
#define FSDP_RUNTIME_TRACE_LASTCOMMANDS_H

#include "plan/PlanTypes.h"
#include "trace/Recorder.h"

#include <array>
#include <cstdint>
#include <vector>

namespace fsdp::trace {

/// The last commands that a program came to, by stream. Kept in all runs, so
/// each costs no more than looking at the clock. Used by one thread.
class LastCommands {
public:
  static constexpr size_t kept = 32; // on each stream

  struct Entry {
    uint32_t program = 0, command = 0;
    uint64_t step = 0;    // from 1
    Clock::time_point at; // when it was launched
  };

  void add(uint32_t stream, const Entry &entry) {
    Ring &ring = rings[stream];
    ring.entries[ring.added++ % kept] = entry;
  }

  /// The oldest first.
  std::vector<Entry> of(uint32_t stream) const {
    const Ring &ring = rings[stream];
    std::vector<Entry> result;
    for (uint64_t i = ring.added < kept ? 0 : ring.added - kept; i < ring.added;
         ++i)
      result.push_back(ring.entries[i % kept]);
    return result;
  }

private:
  struct Ring {
    std::array<Entry, kept> entries;
    uint64_t added = 0;
  };
  std::array<Ring, std::size(plan::streamNames)> rings;
};

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_LASTCOMMANDS_H
