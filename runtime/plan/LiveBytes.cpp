#include "plan/LiveBytes.h"
#include "plan/CommandValues.h"

#include <algorithm>
#include <map>

using namespace fsdp::plan;

namespace {

uint64_t alignUp(uint64_t bytes) {
  return (bytes + placeAlignment - 1) / placeAlignment * placeAlignment;
}

/// The first and last command that touches each value's memory.
class Lifetimes {
public:
  explicit Lifetimes(const ProgramT &program)
      : program(program), uses(program.values.size(), {0, -1}) {}

  void touch(int64_t i) {
    if (i == -1)
      return;
    for (const ValueT *v = program.values[i].get();
         v->view_of != -1 || v->part_of != -1; v = program.values[i].get())
      i = v->view_of != -1 ? v->view_of : v->part_of;
    auto &[first, last] = uses[i];
    if (last == -1)
      first = now;
    last = now;
  }
  void run(const CommandT &command);

  int64_t now = 0;
  const ProgramT &program;
  std::vector<std::pair<int64_t, int64_t>> uses; // last == -1: none

private:
  // Values of collectives and copies that are under way, per stream, then per
  // event that is recorded behind them.
  std::map<uint32_t, std::vector<int64_t>> flying, recorded;
};

void Lifetimes::run(const CommandT &command) {
  const OperationUnion &operation = command.operation;
  bool flies = operation.AsCollective() ||
               (operation.AsCopy() && command.stream != computeStream);
  for (int i : valuesOf(command)) {
    touch(i);
    if (flies)
      flying[command.stream].push_back(i);
  }
  if (const RecordT *record = operation.AsRecord()) {
    recorded[record->event] = std::move(flying[command.stream]);
    flying[command.stream].clear();
  } else if (const WaitT *wait = operation.AsWait()) {
    // A side stream that waits still has to be waited for.
    for (int64_t i : recorded[wait->event]) {
      touch(i);
      if (command.stream != computeStream)
        flying[command.stream].push_back(i);
    }
  }
}

} // namespace

uint64_t fsdp::plan::liveBytes(const PlanT &plan, const ProgramT &program,
                               uint32_t arena) {
  Lifetimes lifetimes(program);
  for (const auto &input : program.inputs)
    lifetimes.touch(input->value);
  for (const auto &command : program.commands) {
    ++lifetimes.now;
    lifetimes.run(*command);
  }
  ++lifetimes.now;
  for (const auto &output : program.outputs)
    lifetimes.touch(output->value);

  uint64_t states = 0;
  for (const auto &state : plan.states)
    if (state->place->arena() == arena)
      states = std::max(states, state->place->offset() + state->place->bytes());
  std::vector<int64_t> changes(lifetimes.now + 2);
  for (size_t i = 0; i < program.values.size(); ++i) {
    const ValueT &value = *program.values[i];
    auto [first, last] = lifetimes.uses[i];
    if (last == -1 || value.state != -1 || value.place->arena() != arena)
      continue;
    changes[first] += alignUp(value.place->bytes());
    changes[last + 1] -= alignUp(value.place->bytes());
  }
  int64_t live = 0, most = 0;
  for (int64_t change : changes)
    most = std::max(most, live += change);
  return alignUp(states) + most;
}
