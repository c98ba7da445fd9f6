#include "executor/ValueUses.h"

#include "plan/CommandValues.h"

#include <algorithm>
#include <set>

namespace fsdp {

std::string nameOf(const plan::CommandT &command) {
  const plan::OperationUnion &operation = command.operation;
  if (const auto *aten = operation.AsAten())
    return aten->name + (aten->overload.empty() ? "" : "." + aten->overload);
  if (operation.AsUpdate())
    return "update";
  if (operation.AsCopy())
    return "copy";
  if (const auto *collective = operation.AsCollective()) {
    switch (collective->kind) {
    case plan::CollectiveKind::AllGather:
      return "all-gather";
    case plan::CollectiveKind::ReduceScatter:
      return "reduce-scatter";
    case plan::CollectiveKind::AllReduce:
      return "all-reduce";
    }
  }
  return operation.AsRecord() ? "record" : "wait";
}

int rootOf(const plan::ProgramT &program, int value) {
  // Bounded, so that a cycle of views cannot hang a message.
  for (size_t i = 0; i < program.values.size(); ++i) {
    const plan::ValueT &v = *program.values[value];
    int base = v.view_of >= 0 ? v.view_of : v.part_of;
    if (base < 0)
      break;
    value = base;
  }
  return value;
}

/// The command at which what `c` moves is known to be there: the first in which
/// the stream of compute waits for an event that is recorded behind it, on its
/// stream or on one that has waited for it.
static int endOfMove(const plan::ProgramT &program, int c) {
  int commands = static_cast<int>(program.commands.size());
  uint32_t stream = program.commands[c]->stream;
  if (stream == plan::computeStream)
    return c;
  std::set<uint32_t> events, streams{stream};
  for (int i = c + 1; i < commands; ++i) {
    const plan::CommandT &command = *program.commands[i];
    const auto *record = command.operation.AsRecord();
    const auto *wait = command.operation.AsWait();
    if (record && streams.count(command.stream))
      events.insert(record->event);
    else if (!wait || !events.count(wait->event))
      continue;
    else if (command.stream == plan::computeStream)
      return i;
    else
      streams.insert(command.stream);
  }
  return commands;
}

std::vector<LiveRange> liveRanges(const plan::ProgramT &program) {
  int commands = static_cast<int>(program.commands.size());
  std::vector<LiveRange> ranges(program.values.size(), {commands, -1});
  auto touch = [&](int value, int at) {
    LiveRange &range = ranges[rootOf(program, value)];
    range.first = std::min(range.first, at);
    range.last = std::max(range.last, at);
  };
  for (const auto &input : program.inputs)
    touch(static_cast<int>(input->value), -1);
  for (int c = 0; c < commands; ++c) {
    const plan::OperationUnion &operation = program.commands[c]->operation;
    bool moves = operation.AsCollective() || operation.AsCopy();
    for (int value : plan::valuesOf(*program.commands[c])) {
      touch(value, c);
      if (moves)
        touch(value, endOfMove(program, c));
    }
  }
  for (const auto &output : program.outputs)
    touch(static_cast<int>(output->value), commands);
  for (size_t v = 0; v < ranges.size(); ++v)
    ranges[v] = ranges[rootOf(program, static_cast<int>(v))];
  return ranges;
}

} // namespace fsdp
