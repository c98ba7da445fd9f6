#include "executor/Poison.h"

#include "Error.h"
#include "executor/ProgramTensors.h"
#include "plan/AlignUp.h"
#include "plan/Collectives.h"
#include "plan/CommandValues.h"
#include "plan/OperationText.h"

#include <algorithm>
#include <cstring>

namespace fsdp {

/// "aten::mm", "all-gather", ..., for messages.
static std::string nameOf(const plan::CommandT &command) {
  const plan::OperationUnion &operation = command.operation;
  if (const auto *aten = operation.AsAten())
    return plan::operatorName(*aten);
  if (const auto *collective = operation.AsCollective())
    return plan::infoOf(collective->kind).name;
  return operation.AsUpdate()   ? "update"
         : operation.AsCopy()   ? "copy"
         : operation.AsRecord() ? "record"
                                : "wait";
}

Poison::Poison(const plan::PlanT &plan, const plan::ProgramT &program,
               const Arenas &arenas)
    : program(program), arenas(arenas), born(program.commands.size()),
      dies(program.commands.size()) {
  auto add = [&](const std::string &name, const plan::Place &place,
                 plan::DType dtype, plan::LiveRange live) {
    char *begin = arenas.address(place, name);
    uint64_t gap = alignUp(place.bytes()) - place.bytes();
    ranges.push_back({name, begin, place.bytes(),
                      std::min(gap, arenas.room(place)), plan::hasNaN(dtype),
                      live});
    return static_cast<int>(ranges.size()) - 1;
  };
  int end = static_cast<int>(program.commands.size());
  for (const auto &state : plan.states) {
    if (state->flat >= 0)
      continue; // part of one that is here itself
    states.push_back(add(state->fqn, *state->place, state->dtype, {-1, end}));
    std::memset(ranges.back().begin + ranges.back().bytes, poisonByte,
                ranges.back().gap);
  }
  std::vector<plan::LiveRange> lives = plan::liveRanges(program);
  for (size_t v = 0; v < lives.size(); ++v) {
    const plan::ValueT &value = *program.values[v];
    // The window may be other ranks' memory. What the first command writes may
    // lie on an input that nobody reads.
    bool isUsed = lives[v].first <= lives[v].last && lives[v].last >= 0;
    if (value.view_of >= 0 || value.state >= 0 || value.part_of >= 0 ||
        value.place->arena() == plan::windowArena || !isUsed)
      continue;
    int range = add(value.name, *value.place, value.dtype, lives[v]);
    if (lives[v].first >= 0)
      born[lives[v].first].push_back(range);
    else
      inputs.push_back(range);
    if (lives[v].last < end)
      dies[std::max(lives[v].last, 0)].push_back(range);
  }
}

void Poison::fill(const Range &range) const {
  // All ones is a NaN in every floating type.
  std::memset(range.begin, range.floating ? 0xFF : poisonByte, range.bytes);
  std::memset(range.begin + range.bytes, poisonByte, range.gap);
}

bool Poison::overlaps(const Range &range,
                      const std::vector<int> &others) const {
  return std::any_of(others.begin(), others.end(), [&](int o) {
    const Range &other = ranges[o];
    return &other != &range && range.begin < other.begin + other.bytes &&
           other.begin < range.begin + range.bytes;
  });
}

void Poison::beginRun() {
  // What lies on an input's bytes is poisoned when the input dies.
  for (const Range &range : ranges)
    if (range.live.first >= 0 && !overlaps(range, inputs))
      fill(range);
  for (int r : inputs)
    std::memset(ranges[r].begin + ranges[r].bytes, poisonByte, ranges[r].gap);
}

void Poison::before(int command) {
  for (int r : born[command])
    // A result may take over the bytes of an operand that dies here.
    if (!overlaps(ranges[r], dies[command]))
      fill(ranges[r]);
}

void Poison::checkGap(const Range &range, int command) const {
  for (uint64_t i = 0; i < range.gap; ++i)
    if (static_cast<unsigned char>(range.begin[range.bytes + i]) != poisonByte)
      throw Error(E::PlanAddress,
                  nameOf(*program.commands[command]) + " in " +
                      program.commands[command]->location +
                      ": wrote past the end of " + range.name +
                      "; the plan or the kernel is wrong, please report it");
}

void Poison::after(int command) {
  if (!arenas.guardsIntact())
    throw Error(
        E::PlanAddress,
        nameOf(*program.commands[command]) + " in " +
            program.commands[command]->location +
            ": wrote outside its arena; the plan or the kernel is wrong, "
            "please report it");
  for (int v : plan::valuesOf(*program.commands[command])) {
    const plan::ValueT &value = *program.values[plan::rootOf(program, v)];
    for (const Range &range : ranges)
      if (range.live.first <= command && range.live.last >= command &&
          range.name == value.name)
        checkGap(range, command);
  }
  if (command + 1 == static_cast<int>(program.commands.size()))
    for (int r : states)
      checkGap(ranges[r], command);
  for (int r : dies[command])
    if (!overlaps(ranges[r], born[command]))
      fill(ranges[r]);
}

} // namespace fsdp
