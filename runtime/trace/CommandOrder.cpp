#include "trace/CommandOrder.h"

#include "plan/LiveRanges.h"
#include "trace/ProgramRun.h"

namespace fsdp::trace {

static bool isView(const plan::OperationUnion &operation) {
  const plan::AtenT *aten = operation.AsAten();
  return aten && aten->view;
}

std::map<uint32_t, uint32_t> awaitedCommands(const plan::ProgramT &program) {
  std::map<uint32_t, uint32_t> awaited;
  std::map<uint32_t, uint32_t> last;     // by stream: what it works on
  std::map<uint32_t, uint32_t> recorded; // by event: what stands before it
  for (uint32_t c = 0; c < program.commands.size(); ++c) {
    const plan::CommandT &command = *program.commands[c];
    const plan::OperationUnion &operation = command.operation;
    if (const auto *record = operation.AsRecord()) {
      auto before = last.find(command.stream);
      recorded[record->event] = before == last.end() ? nothing : before->second;
    } else if (const auto *wait = operation.AsWait()) {
      awaited[c] = recorded[wait->event];
    } else if (!isView(operation)) {
      last[command.stream] = c;
    }
  }
  return awaited;
}

namespace {

struct Accesses {
  std::vector<int> reads, writes; // values
};

Accesses accessesOf(const plan::OperationUnion &operation) {
  Accesses found;
  if (const auto *aten = operation.AsAten()) {
    for (const auto &argument : aten->arguments) {
      if (argument->kind == plan::ArgumentKind::Value)
        found.reads.push_back(argument->value);
      else if (argument->kind == plan::ArgumentKind::ValueList)
        found.reads.insert(found.reads.end(), argument->values.begin(),
                           argument->values.end());
    }
    if (!aten->view)
      found.writes = aten->results;
  } else if (const auto *update = operation.AsUpdate()) {
    found.reads = {int(update->gradient), update->scale, update->skip,
                   update->staged};
    found.writes = {update->staged};
  } else if (const auto *copy = operation.AsCopy()) {
    for (const auto &piece : copy->pieces) {
      found.reads.push_back(piece->source);
      found.writes.push_back(piece->destination);
    }
  } else if (const auto *collective = operation.AsCollective()) {
    found.reads = {int(collective->source)};
    found.writes = {int(collective->destination)};
  }
  return found;
}

} // namespace

Needs needsOf(const plan::ProgramT &program) {
  Needs needs(program.commands.size());
  std::map<int, uint32_t> written; // by root: the last command that wrote it
  for (uint32_t c = 0; c < program.commands.size(); ++c) {
    Accesses accesses = accessesOf(program.commands[c]->operation);
    for (int value : accesses.reads)
      if (value >= 0)
        if (auto by = written.find(plan::rootOf(program, value));
            by != written.end())
          needs[c].push_back(by->second);
    for (int value : accesses.writes)
      if (value >= 0)
        written[plan::rootOf(program, value)] = c;
  }
  return needs;
}

} // namespace fsdp::trace
