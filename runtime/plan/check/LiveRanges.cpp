#include "plan/check/LiveRanges.h"
#include "plan/AlignUp.h"
#include "plan/CommandValues.h"
#include "plan/check/CheckingBudget.h"

#include <algorithm>
#include <map>
#include <set>

using namespace fsdp::plan;

namespace {

/// Follows the commands of a program, in the order of the list.
class Lifetimes {
public:
  Lifetimes(const ProgramT &program, CheckingBudget *budget)
      : program(program), ranges(program.values.size(), {0, -2}),
        budget(budget) {}

  void touch(int value, int now) {
    LiveRange &range = ranges[rootOf(program, value)];
    if (range.last < range.first)
      range.first = now;
    range.last = now;
  }

  bool isBorn(int value) const {
    const LiveRange &range = ranges[rootOf(program, value)];
    return range.last >= range.first;
  }

  void run(const CommandT &command, int now) {
    const OperationUnion &operation = command.operation;
    bool flies = command.stream != computeStream &&
                 (operation.AsCollective() || operation.AsCopy());
    const AtenT *call = operation.AsAten();
    for (int value : valuesOf(command)) {
      // To look at bytes that nobody has written yet needs nothing of them.
      if (call && call->view && !isBorn(value))
        continue;
      touch(value, now);
      if (flies)
        flying[command.stream].insert(value);
    }
    if (const RecordT *record = operation.AsRecord()) {
      recorded[record->event] = {std::move(flying[command.stream]), false};
      flying[command.stream].clear();
    } else if (const WaitT *wait = operation.AsWait()) {
      // A side stream that waits still has to be waited for.
      auto &[values, isAwaited] = recorded[wait->event];
      isAwaited = true;
      if (budget)
        budget->look(values.size());
      for (int value : values) {
        touch(value, now);
        if (command.stream != computeStream)
          flying[command.stream].insert(value);
      }
    }
  }

  /// Nobody has waited for what is still under way.
  void land(int end) {
    for (auto &[event, behind] : recorded)
      if (!behind.isAwaited)
        flying[computeStream].insert(behind.values.begin(),
                                     behind.values.end());
    for (auto &[stream, values] : flying)
      for (int value : values)
        touch(value, end);
  }

  const ProgramT &program;
  std::vector<LiveRange> ranges;

private:
  CheckingBudget *budget;
  struct Recorded {
    std::set<int> values;
    bool isAwaited = false;
  };
  // Values that are under way, per stream, then per event that is recorded
  // behind them.
  std::map<uint32_t, std::set<int>> flying;
  std::map<uint32_t, Recorded> recorded;
};

} // namespace

int fsdp::plan::rootOf(const ProgramT &program, int value) {
  for (const ValueT *v = program.values[value].get();
       v->view_of != -1 || v->part_of != -1; v = program.values[value].get())
    value = v->view_of != -1 ? v->view_of : v->part_of;
  return value;
}

static std::vector<LiveRange> rangesOf(const ProgramT &program,
                                       CheckingBudget *budget) {
  Lifetimes lifetimes(program, budget);
  int end = static_cast<int>(program.commands.size());
  for (const auto &input : program.inputs)
    lifetimes.touch(input->value, -1);
  for (int now = 0; now < end; ++now)
    lifetimes.run(*program.commands[now], now);
  lifetimes.land(end);
  for (const auto &output : program.outputs)
    lifetimes.touch(output->value, end);
  return std::move(lifetimes.ranges);
}

std::vector<LiveRange> fsdp::plan::liveRanges(const ProgramT &program) {
  return rangesOf(program, nullptr);
}

uint64_t fsdp::plan::liveBytes(const PlanT &plan, const ProgramT &program,
                               uint32_t arena, CheckingBudget *budget) {
  uint64_t states = 0;
  for (const auto &state : plan.states)
    if (state->place->arena() == arena)
      states = std::max(states, state->place->offset() + state->place->bytes());

  std::vector<LiveRange> ranges = rangesOf(program, budget);
  std::vector<int64_t> changes(program.commands.size() + 3); // from -1 on
  for (size_t i = 0; i < ranges.size(); ++i) {
    const ValueT &value = *program.values[i];
    auto [first, last] = ranges[i];
    if (last < first || value.state != -1 || value.place->arena() != arena)
      continue;
    changes[first + 1] += fsdp::alignUp(value.place->bytes());
    changes[last + 2] -= fsdp::alignUp(value.place->bytes());
  }
  int64_t live = 0, most = 0;
  for (int64_t change : changes)
    most = std::max(most, live += change);
  return fsdp::alignUp(states) + most;
}
