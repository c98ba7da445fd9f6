// Checks one program: each command by itself, and what it does to the program's
// memory.
#include "plan/check/CollectiveChecker.h"
#include "plan/check/CopyChecker.h"
#include "plan/check/LiveRanges.h"
#include "plan/check/UpdateChecker.h"

#include <set>

using namespace fsdp::plan;

namespace {

class ProgramChecker {
public:
  ProgramChecker(const Checked &at, const PlanT &plan, const ProgramT &program,
                 const PlanFacts &facts, CheckingBudget &budget)
      : plan(plan), program(program), at(at),
        memory(plan, program, facts, at, budget), numbers(plan, program),
        updates(plan, program, facts, memory, numbers),
        collectives(plan, program, memory, numbers) {}

  void run() {
    checkScalars(at, plan, program.scalars);
    for (size_t i = 0; i < program.scalars.size(); ++i)
      at.inside("scalar ", i)
          .require(C24, program.scalars[i]->kind != ScalarKind::Former,
                   "follows from the step before, which rules alone keep");
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const CommandT &command = *program.commands[i];
      checkCommand(at.at(PlanEntry::Command, i), i, command);
      numbers.follow(command);
    }
    memory.finish(at);
    numbers.finish(at);
    checkLiveBytes(deviceArena, program.live_bytes);
    checkLiveBytes(hostArena, program.host_live_bytes);
    updates.finish(at);
  }

private:
  void checkLiveBytes(uint32_t arena, uint64_t said) {
    uint64_t live = liveBytes(plan, program, arena, &memory.budget);
    at.require(C29, said == live, "says that ", said, " bytes of the ",
               arenaNames[arena],
               " arena are in use at one time, but they are ", live);
  }

  void checkCommand(const Checked &here, size_t i, const CommandT &command) {
    here.require(C8, command.stream < std::size(streamNames), "runs on stream ",
                 command.stream, ", there are ", std::size(streamNames));
    memory.now = memory.order.launch(command.stream, i);
    const OperationUnion &operation = command.operation;
    here.require(C1, operation.value, "has no operation");
    if (const CollectiveT *collective = operation.AsCollective())
      return collectives.check(here.inside("collective"), *collective);
    if (const RecordT *record = operation.AsRecord()) {
      here.index(record->event, program.events, "event");
      return here.require(C8,
                          memory.order.record(record->event, command.stream),
                          "records an event for the second time");
    }
    if (const WaitT *wait = operation.AsWait()) {
      here.index(wait->event, program.events, "event");
      return here.require(C8, memory.order.wait(wait->event, command.stream),
                          "waits for an event that was not recorded before");
    }
    if (const CopyT *copy = operation.AsCopy())
      return checkCopy(here.inside("copy"), plan, program, *copy,
                       command.stream, memory);
    here.require(C8, command.stream == computeStream, "computes on stream ",
                 command.stream, ", which is for collectives");
    if (const AtenT *call = operation.AsAten())
      return checkAten(here.inside(call->name), *call);
    if (const UpdateT *update = operation.AsUpdate())
      return updates.check(here, *update);
    here.fail(C1, "its operation is unknown");
  }

  void checkAten(const Checked &here, const AtenT &call) {
    UsedBytes read;
    std::set<size_t> bases; // of what is read
    OneMemory used;
    checkMeasuredTime(here, call);
    checkArguments(here, plan, call, program.scalars.size(), [&](int64_t i) {
      // A view is made once at load; it reads nothing.
      call.view ? memory.requireReady(here, i) : memory.read(here, i);
      read.add(*program.values[i]->place);
      bases.insert(memory.baseOf(i));
      used.add(here, *program.values[i]->place);
    });
    std::set<int> results;
    for (int result : call.results) {
      if (result == -1)
        continue;
      here.index(result, program.values.size(), "value");
      here.require(C4, results.insert(result).second, "gives value ", result,
                   " twice");
      used.add(here, *program.values[result]->place);
      if (!call.view) {
        memory.requireTarget(here, result);
        memory.requireApart(here, read, result);
        memory.write(here, result);
        continue;
      }
      here.require(C3, memory.make(result), "value ", result,
                   " is not a view, or made twice");
      here.require(C3, bases.count(memory.baseOf(result)), "value ", result,
                   " is not a view of an argument");
    }
  }

  const PlanT &plan;
  const ProgramT &program;
  const Checked &at;
  ProgramMemory memory;
  SharedNumbers numbers;
  UpdateChecker updates;
  CollectiveChecker collectives;
};

} // namespace

void fsdp::plan::checkProgram(const Checked &at, const PlanT &plan,
                              const ProgramT &program, const PlanFacts &facts,
                              CheckingBudget &budget) {
  ProgramChecker(at, plan, program, facts, budget).run();
}
