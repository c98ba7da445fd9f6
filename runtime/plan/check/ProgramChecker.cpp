// Checks one program: each command by itself, and what it does to the program's
// memory.
#include "plan/Collectives.h"
#include "plan/check/CopyChecker.h"
#include "plan/check/LiveRanges.h"
#include "plan/check/ProgramMemory.h"
#include "plan/check/ReductionChecker.h"

#include <set>

using namespace fsdp::plan;

namespace {

class ProgramChecker {
public:
  ProgramChecker(const Checked &at, const PlanT &plan, const ProgramT &program,
                 const PlanFacts &facts, CheckingBudget &budget)
      : plan(plan), program(program), facts(facts), at(at),
        memory(plan, program, facts, at, budget), numbers(plan, program) {}

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
    for (const auto &[flat, elements] : updatedElements) {
      auto all = facts.members.find(flat);
      at.require(C25,
                 all == facts.members.end() ||
                     elements == all->second.inside(0, ~uint64_t(0)),
                 "updates some of the members of '", plan.states[flat]->fqn,
                 "' only");
    }
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
      return checkCollective(here, *collective);
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
      return checkUpdate(here, *update);
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

  void checkUpdate(const Checked &here, const UpdateT &update) {
    here.index(update.rule, plan.rules.size(), "rule");
    here.index(update.parameter, plan.states.size(), "state");
    const RuleT &rule = *plan.rules[update.rule];
    const StateT &parameter = *plan.states[update.parameter];
    bool isGradient = parameter.role == Role::Gradient && update.states.empty();
    here.require(C25,
                 (parameter.role == Role::Parameter || isGradient) &&
                     parameter.flat == -1,
                 "updates '", parameter.fqn,
                 "', which is neither a parameter nor a gradient");
    checkRange(here, update, parameter);
    memory.read(here, update.gradient);
    const ValueT &gradient = *program.values[update.gradient];
    here.require(C25, gradient.shape == parameter.local_shape,
                 "the gradient of '", parameter.fqn, "' has shape ",
                 formatShape(gradient.shape), ", not ",
                 formatShape(parameter.local_shape));
    OneMemory used;
    used.add(here, *gradient.place);
    for (int scalar : {update.scale, update.skip})
      if (scalar != -1) {
        checkScalar(here, scalar);
        used.add(here, *program.values[scalar]->place);
      }
    numbers.checkUpdate(here, update);
    size_t operands = 2 + update.states.size() + update.given.size();
    here.require(C25, rule.operands == operands, "rule '", rule.name,
                 "' takes ", rule.operands, " operands, given are ", operands);
    here.require(C25, rule.results.size() == 1 + update.states.size(), "rule '",
                 rule.name, "' does not give the parameter and each state");
    UsedBytes changed(*parameter.place);
    for (uint32_t state : update.states) {
      here.index(state, plan.states.size(), "state");
      changed.add(*plan.states[state]->place);
    }
    for (size_t i = 0; i < update.given.size(); ++i) {
      checkGiven(here, update, i, used);
      memory.requireApart(here, changed, update.given[i]);
    }
    here.require(C25, rule.dtypes[1] == gradient.dtype, "rule '", rule.name,
                 "' is of other dtypes");
    auto change = [&](size_t s, size_t operand) {
      const StateT &state = *plan.states[s];
      used.add(here, *state.place);
      here.require(C25, rule.dtypes[operand] == state.dtype, "rule '",
                   rule.name, "' is of other dtypes");
      memory.requireApart(here, UsedBytes(*state.place), update.gradient);
      memory.update(here, s);
    };
    if (update.staged == -1)
      change(update.parameter, 0);
    else
      changeStaged(here, update, used);
    std::set<uint32_t> states;
    for (size_t i = 0; i < update.states.size(); ++i) {
      here.index(update.states[i], plan.states.size(), "state");
      const StateT &state = *plan.states[update.states[i]];
      here.require(C25,
                   state.parameter == static_cast<int64_t>(update.parameter) &&
                       state.flat == -1 &&
                       (state.local_shape == parameter.local_shape ||
                        isReplaced(update, i)) &&
                       states.insert(update.states[i]).second,
                   "'", state.fqn, "' is not state of '", parameter.fqn,
                   "', or given twice");
      change(update.states[i], 2 + i);
    }
  }

  /// Whether a state becomes what the update is given, as that is, and the rule
  /// computes with neither: then they need not be of the parameter's shape.
  bool isReplaced(const UpdateT &update, size_t i) const {
    const RuleT &rule = *plan.rules[update.rule];
    int64_t result = rule.results[1 + i], first = 2 + update.states.size();
    if (result < first || result - first >= int64_t(update.given.size()) ||
        update.states[i] >= plan.states.size())
      return false;
    bool isRead = false;
    memory.budget.look(rule.calls.size());
    for (const auto &call : rule.calls)
      for (const auto &argument : call->arguments) {
        std::vector<int> read = argument->values;
        if (argument->kind == ArgumentKind::Value)
          read = {argument->value};
        for (int value : read)
          isRead |= value == result || value == int64_t(2 + i);
      }
    return !isRead && program.values[update.given[result - first]]->shape ==
                          plan.states[update.states[i]]->local_shape;
  }

  /// What an update reads of whole matrices: each element's own, or what a
  /// state becomes.
  void checkGiven(const Checked &here, const UpdateT &update, size_t i,
                  OneMemory &used) {
    memory.read(here, update.given[i]);
    const ValueT &given = *program.values[update.given[i]];
    const RuleT &rule = *plan.rules[update.rule];
    const StateT &parameter = *plan.states[update.parameter];
    used.add(here, *given.place);
    size_t operand = 2 + update.states.size() + i;
    bool isState = false;
    memory.budget.look(update.states.size());
    for (size_t s = 0; s < update.states.size(); ++s)
      isState |= rule.results[1 + s] == int(operand) && isReplaced(update, s);
    here.require(C25,
                 (given.shape == parameter.local_shape || isState) &&
                     rule.dtypes[operand] == given.dtype,
                 "what is given of '", parameter.fqn,
                 "' has not its shape, or another dtype than rule '", rule.name,
                 "' takes");
  }

  /// A copy that is like the parameter is changed in its place; that it is one,
  /// checkStaging says.
  void changeStaged(const Checked &here, const UpdateT &update,
                    OneMemory &used) {
    const StateT &parameter = *plan.states[update.parameter];
    memory.requireTarget(here, update.staged);
    const ValueT &staged = *program.values[update.staged];
    here.require(C18,
                 staged.state == -1 && staged.dtype == parameter.dtype &&
                     staged.shape == parameter.local_shape &&
                     staged.strides == parameter.strides,
                 "changes ", memory.valueName(update.staged),
                 ", which is no copy of '", parameter.fqn, "'");
    here.require(C25, plan.rules[update.rule]->dtypes[0] == staged.dtype,
                 "rule '", plan.rules[update.rule]->name,
                 "' is of other dtypes");
    used.add(here, *staged.place);
    memory.requireApart(here, UsedBytes(*staged.place), update.gradient);
    memory.read(here, update.staged);
    memory.write(here, update.staged);
  }

  /// What an update reads beside tensors.
  void checkScalar(const Checked &here, int i) {
    memory.read(here, i);
    const ValueT &value = *program.values[i];
    here.require(C25, value.shape.empty() && isFloating(value.dtype), "takes ",
                 memory.valueName(i),
                 " as a scalar, which is no floating-point number");
  }

  /// An update is of all of a parameter, once; or of a range of a flat one that
  /// cuts no member, and that no other update touches.
  void checkRange(const Checked &here, const UpdateT &update,
                  const StateT &parameter) {
    uint64_t begin = update.begin, end = update.end,
             size = *numElements(parameter.shape);
    here.require(C25, parameter.is_flat || !(begin || end),
                 "updates a range of '", parameter.fqn, "', which is not flat");
    if (!begin && !end)
      end = size;
    auto members = facts.members.find(update.parameter);
    std::optional<uint64_t> elements = members == facts.members.end()
                                           ? size
                                           : members->second.inside(begin, end);
    here.require(C25, begin <= end && end <= size && elements, "updates [",
                 begin, ", ", end, "), which cuts a member of '", parameter.fqn,
                 "'");
    here.require(C25,
                 !updates[update.parameter].add(begin, end, 0) &&
                     (size || onlyOnce.insert(update.parameter).second),
                 "updates '", parameter.fqn, "' for the second time");
    updatedElements[update.parameter] += *elements;
  }

  void checkCollective(const Checked &outer, const CollectiveT &collective) {
    Checked here = outer.inside("collective");
    here.require(C1, collective.kind <= CollectiveKind::MAX,
                 "its kind is unknown");
    here.require(C1, collective.dtype <= DType::MAX, "its dtype is unknown");
    here.require(C1,
                 !collective.region || *collective.region <= ProgramRegion::MAX,
                 "its region is unknown");
    here.index(collective.mesh_dim, plan.mesh.size(), "mesh dimension");
    bool overShards = isOver(plan, collective, AxisRole::Shard);
    here.require(C32,
                 overShards || isOver(plan, collective, AxisRole::Replicate),
                 "is over ", collective.mesh_dims, " mesh dimensions from '",
                 plan.mesh[collective.mesh_dim]->name,
                 "' on, which are not all that have its role");
    uint32_t stream = memory.now.stream, channel = collective.channel;
    here.require(C8, channel == channelOf(stream), "uses channel ", channel,
                 ", which is not stream ", stream, "'s");
    auto used = channels.emplace(channel, stream).first;
    here.require(C8, used->second == stream, "channel ", channel,
                 " is used by streams ", used->second, " and ", stream,
                 ", so ranks could disagree on the order");
    if (collective.unit != -1)
      here.index(collective.unit, plan.units.size(), "unit");
    const CollectiveInfo &info = infoOf(collective.kind);
    here.index(collective.source, program.values.size(), "value");
    checkReduction(here, plan, collective, numbers.normOf(collective.source));
    memory.requireTarget(here, collective.destination, collective.mapped);
    const ValueT &from = *program.values[collective.source];
    const ValueT &into = *program.values[collective.destination];
    here.require(C7, from.view_of == -1, "sends a view");
    here.require(
        C7, from.dtype == collective.dtype && into.dtype == collective.dtype,
        "moves ", dtypeName(collective.dtype), ", its values are ",
        dtypeName(from.dtype), " and ", dtypeName(into.dtype));
    unsigned __int128 one = collective.count;
    one *= dtypeBytes(collective.dtype);
    uint32_t ranks = groupOf(plan, dimsOf(collective), 0).size;
    here.require(C32,
                 collective.kind == CollectiveKind::AllReduce || ranks == 1 ||
                     overShards,
                 "gathers or scatters along '",
                 formatDims(plan, dimsOf(collective)),
                 "', where ranks have the same parts of states");
    if (collective.ranks) {
      // These kept the same whole, in the order in which they are gathered.
      here.require(C17,
                   collective.kind == CollectiveKind::AllGather &&
                       !collective.mapped && overShards &&
                       memory.keepersOf(collective.source) == collective.ranks,
                   "is among ", collective.ranks,
                   " neighbours; only a gather of what as many kept is");
      ranks = collective.ranks;
    }
    here.require(C7, from.place->bytes() == one * info.piecesSent(ranks),
                 "its source has ", from.place->bytes(),
                 " bytes, which is not what it sends");
    here.require(C7, into.place->bytes() == one * info.piecesReceived(ranks),
                 "its destination has ", into.place->bytes(),
                 " bytes, which is not what it receives");
    here.require(C15,
                 from.place->arena() != hostArena &&
                     into.place->arena() != hostArena,
                 "exchanges memory of the host");
    memory.requireApart(here, UsedBytes(*from.place), collective.destination);
    // Only ranks of one shard group see each other's states.
    if (overShards && !collective.ranks)
      memory.order.meet(stream);
    memory.read(here, collective.source, 0, from.place->bytes());
    memory.write(here, collective.destination);
    memory.expectReader(collective.destination);
    if (collective.ranks)
      memory.restore(collective.destination, collective.source);
  }

  const PlanT &plan;
  const ProgramT &program;
  const PlanFacts &facts;
  const Checked &at;
  ProgramMemory memory;
  SharedNumbers numbers;
  std::map<uint32_t, uint32_t> channels; // and their streams
  std::map<uint32_t, DisjointRanges> updates;
  std::map<uint32_t, uint64_t> updatedElements; // of flat states' members
  std::set<uint32_t> onlyOnce;                  // updated, without elements
};

} // namespace

void fsdp::plan::checkProgram(const Checked &at, const PlanT &plan,
                              const ProgramT &program, const PlanFacts &facts,
                              CheckingBudget &budget) {
  ProgramChecker(at, plan, program, facts, budget).run();
}
