#include "trace/CommandOrder.h"

#include "plan/CommandValues.h"
#include "plan/check/LiveRanges.h"
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

Needs needsOf(const plan::ProgramT &program) {
  Needs needs(program.commands.size());
  std::map<int, uint32_t> written; // by root: the last command that wrote it
  for (uint32_t c = 0; c < program.commands.size(); ++c) {
    plan::Accesses accesses = plan::accessesOf(*program.commands[c]);
    for (int value : accesses.reads)
      if (auto by = written.find(plan::rootOf(program, value));
          by != written.end())
        needs[c].push_back(by->second);
    for (int value : accesses.writes)
      written[plan::rootOf(program, value)] = c;
  }
  return needs;
}

} // namespace fsdp::trace
