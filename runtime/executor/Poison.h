#ifndef FSDP_RUNTIME_EXECUTOR_POISON_H
#define FSDP_RUNTIME_EXECUTOR_POISON_H

#include "executor/Arenas.h"
#include "plan/check/LiveRanges.h"

#include <string>
#include <utility>
#include <vector>

namespace fsdp {

/// Guard bytes before and behind each arena of a poisoned run.
inline constexpr uint64_t poisonGuardBytes = 4096;

/// Finds reads of dead bytes and writes past the ends of ranges, for one
/// program: what is not alive is NaN (integers: 0xA5), and the bytes between
/// the end of a living range and the next multiple of 64 are watched.
class Poison {
public:
  Poison(const plan::PlanT &plan, const plan::ProgramT &program,
         const Arenas &arenas);

  /// Poisons what the program's first command must not read. Inputs stay.
  void beginRun();
  void before(int command);
  /// Throws Error, naming the value and the command, when `command` wrote past
  /// the end of a value; then poisons what dies with it.
  void after(int command);

private:
  struct Range {
    std::string name;
    char *begin;
    uint64_t bytes, gap;
    bool floating;
    plan::LiveRange live;
  };
  void fill(const Range &range) const;
  void checkGap(const Range &range, int command) const;
  bool overlaps(const Range &range, const std::vector<int> &others) const;

  const plan::ProgramT &program;
  const Arenas &arenas;
  std::vector<Range> ranges;
  std::vector<std::vector<int>> born, dies; // ranges, by command
  std::vector<int> inputs;                  // ranges that live from the start
  std::vector<int> states;                  // ranges that always live
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_POISON_H
