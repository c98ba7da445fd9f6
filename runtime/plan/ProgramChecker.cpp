// Checks one program: first what each value is, then the commands in order, as
// a simulation of who owns which bytes.
#include "plan/ByteOwners.h"
#include "plan/CheckerSupport.h"

#include <set>

using namespace fsdp::plan;

namespace {

class ProgramChecker {
public:
  ProgramChecker(const PlanT &plan, const ProgramT &program)
      : plan(plan), program(program), at("program '" + program.name + "'"),
        owners(plan.arenas.size()), ready(program.values.size()) {}

  void run() {
    checkScalars(at, program.scalars, plan.group_learning_rates.size());
    for (size_t i = 0; i < program.values.size(); ++i)
      checkValue(i);
    start();
    for (size_t i = 0; i < program.commands.size(); ++i)
      checkCommand(i);
    finish();
  }

private:
  std::string valueName(size_t i) const {
    const std::string &name = program.values[i]->name;
    return "value " + std::to_string(i) +
           (name.empty() ? "" : " (" + name + ")");
  }

  /// What owns a value's bytes: its state, or the value it is a view of in the
  /// end. States come first, then values.
  int64_t storage(size_t i) const {
    while (program.values[i]->view_of != -1)
      i = program.values[i]->view_of;
    int state = program.values[i]->state;
    return state != -1 ? state : static_cast<int64_t>(plan.states.size() + i);
  }
  std::string storageName(int64_t owner) const {
    size_t states = plan.states.size(), i = static_cast<size_t>(owner);
    return i < states ? "state '" + plan.states[i]->fqn + "'"
                      : valueName(i - states);
  }

  void checkValue(size_t i) {
    const ValueT &value = *program.values[i];
    Checked here = at.inside(valueName(i));
    here.require(value.dtype <= DType::MAX, "its dtype is unknown");
    checkPlace(here, plan, value.place.get());
    checkTensor(here, value.shape, value.strides, value.dtype, *value.place);
    if (value.view_of != -1) {
      // Earlier ones only, so that chains of views end.
      here.require(value.view_of >= 0 && static_cast<size_t>(value.view_of) < i,
                   "is a view of value " + std::to_string(value.view_of) +
                       ", which is not an earlier one");
      const Place &base = *program.values[value.view_of]->place;
      here.require(value.place->arena() == base.arena() &&
                       value.place->offset() >= base.offset() &&
                       value.place->offset() + value.place->bytes() <=
                           base.offset() + base.bytes(),
                   "reaches out of the value that it is a view of");
      here.require(value.state == -1, "is a view and a state at once");
    }
    if (value.state != -1) {
      here.index(value.state, plan.states.size(), "state");
      const StateT &state = *plan.states[value.state];
      here.require(value.dtype == state.dtype &&
                       value.shape == state.local_shape &&
                       value.strides == state.strides &&
                       samePlace(*value.place, *state.place),
                   "differs from state '" + state.fqn + "'");
    }
  }

  void start() {
    for (size_t s = 0; s < plan.states.size(); ++s)
      write(*plan.states[s]->place, 0, plan.states[s]->place->bytes(), s);
    for (size_t i = 0; i < program.values.size(); ++i)
      ready[i] = program.values[i]->view_of == -1;
    std::set<std::string> names;
    for (const auto &input : program.inputs) {
      Checked here = at.inside("input '" + input->name + "'");
      here.require(!input->name.empty() && names.insert(input->name).second,
                   "its name is empty or used twice");
      checkTarget(here, input->value);
      const ValueT &value = *program.values[input->value];
      here.require(value.state == -1, "is a state");
      const Place &place = *value.place;
      if (auto other = owners[place.arena()].firstOwner(
              place.offset(), place.offset() + place.bytes()))
        here.fail("shares bytes with " + storageName(*other));
      write(place, 0, place.bytes(), storage(input->value));
    }
  }

  void finish() {
    std::set<std::string> names;
    for (const auto &output : program.outputs) {
      Checked here = at.inside("output '" + output->name + "'");
      here.require(!output->name.empty() && names.insert(output->name).second,
                   "its name is empty or used twice");
      read(here, output->value);
    }
    at.require(!program.outputs.empty() && program.outputs[0]->name == "loss",
               "its first output is not 'loss'");
    at.require(numElements(program.values[program.outputs[0]->value]->shape) ==
                   1,
               "its loss is not one number");
    for (size_t s = 0; s < plan.states.size(); ++s)
      requireOwned(at, *plan.states[s]->place, 0,
                   plan.states[s]->place->bytes(), s, "ends after");
  }

  void checkCommand(size_t i) {
    const CommandT &command = *program.commands[i];
    Checked here = at.inside(
        "command " + std::to_string(i) +
        (command.location.empty() ? "" : " (" + command.location + ")"));
    here.require(command.stream == 0,
                 "runs on stream " + std::to_string(command.stream) +
                     ", plans of this version have one stream");
    const OperationUnion &operation = command.operation;
    here.require(operation.value, "has no operation");
    switch (operation.type) {
    case Operation::Aten:
      return checkAten(here, *operation.AsAten());
    case Operation::Update:
      return checkUpdate(here, *operation.AsUpdate());
    case Operation::Copy:
      return checkCopy(here, *operation.AsCopy());
    case Operation::Collective:
      return checkCollective(here, *operation.AsCollective());
    case Operation::Record:
      here.index(operation.AsRecord()->event, program.events, "event");
      here.require(recorded.insert(operation.AsRecord()->event).second,
                   "records an event for the second time");
      return;
    case Operation::Wait:
      here.index(operation.AsWait()->event, program.events, "event");
      here.require(recorded.count(operation.AsWait()->event),
                   "waits for an event that was not recorded before");
      return;
    default:
      here.fail("its operation is unknown");
    }
  }

  void checkAten(const Checked &outer, const AtenT &call) {
    Checked here = outer.inside(call.name);
    std::vector<int> arguments;
    checkArguments(here, call, program.scalars.size(), [&](int64_t i) {
      // A view is made once at load; it reads nothing.
      call.view ? requireReady(here, i) : read(here, i);
      arguments.push_back(i);
    });
    std::set<int> results;
    for (int result : call.results) {
      if (result == -1)
        continue;
      here.index(result, program.values.size(), "value");
      here.require(results.insert(result).second,
                   "gives " + valueName(result) + " twice");
      if (!call.view) {
        checkTarget(here, result);
        for (int argument : arguments)
          requireApart(here, argument, result);
        continue;
      }
      here.require(program.values[result]->view_of != -1 && !ready[result],
                   valueName(result) + " is not a view, or made twice");
      bool ofArgument = false;
      for (int argument : arguments)
        ofArgument |= storage(argument) == storage(result);
      here.require(ofArgument,
                   valueName(result) + " is not a view of an argument");
      ready[result] = true;
    }
    if (!call.view)
      for (int result : results)
        writeValue(result);
  }

  void checkUpdate(const Checked &here, const UpdateT &update) {
    here.index(update.rule, plan.rules.size(), "rule");
    here.index(update.parameter, plan.states.size(), "state");
    const RuleT &rule = *plan.rules[update.rule];
    const StateT &parameter = *plan.states[update.parameter];
    here.require(parameter.role == Role::Parameter,
                 "updates '" + parameter.fqn + "', which is no parameter");
    here.require(updated.insert(update.parameter).second,
                 "updates '" + parameter.fqn + "' for the second time");
    read(here, update.gradient);
    const ValueT &gradient = *program.values[update.gradient];
    here.require(gradient.shape == parameter.local_shape,
                 "the gradient of '" + parameter.fqn + "' has shape " +
                     formatShape(gradient.shape) + ", not " +
                     formatShape(parameter.local_shape));
    here.require(rule.operands == 2 + update.states.size(),
                 "rule '" + rule.name + "' takes " +
                     std::to_string(rule.operands) + " operands, given are " +
                     std::to_string(2 + update.states.size()));
    here.require(rule.dtypes[0] == parameter.dtype &&
                     rule.dtypes[1] == gradient.dtype,
                 "rule '" + rule.name + "' is of other dtypes");
    auto touch = [&](size_t s) {
      const StateT &state = *plan.states[s];
      requireOwned(here, *state.place, 0, state.place->bytes(), s, "updates");
      requireApart(here, *state.place, update.gradient);
      write(*state.place, 0, state.place->bytes(), s);
    };
    touch(update.parameter);
    std::set<uint32_t> states;
    for (size_t i = 0; i < update.states.size(); ++i) {
      here.index(update.states[i], plan.states.size(), "state");
      const StateT &state = *plan.states[update.states[i]];
      here.require(state.parameter == static_cast<int64_t>(update.parameter) &&
                       states.insert(update.states[i]).second,
                   "'" + state.fqn + "' is not state of '" + parameter.fqn +
                       "', or given twice");
      here.require(rule.dtypes[2 + i] == state.dtype,
                   "rule '" + rule.name + "' is of other dtypes");
      touch(update.states[i]);
    }
  }

  /// Bytes that `blocks` blocks span, `stride` apart; fails where they do not
  /// fit the place.
  void checkBlocks(const Checked &here, const Place &place, uint64_t offset,
                   uint64_t stride, const CopyT &copy) {
    unsigned __int128 end = copy.block_bytes;
    end += static_cast<unsigned __int128>(stride) * (copy.blocks - 1) + offset;
    here.require(end <= place.bytes(), "reaches past the end of a place of " +
                                           std::to_string(place.bytes()) +
                                           " bytes");
  }

  void checkCopy(const Checked &outer, const CopyT &copy) {
    Checked here = outer.inside("copy");
    here.require(copy.blocks >= 1 && copy.blocks <= maxBlocks,
                 "has no blocks, or more than 2^24");
    checkTarget(here, copy.destination);
    const Place &to = *program.values[copy.destination]->place;
    checkBlocks(here, to, copy.destination_offset, copy.destination_stride,
                copy);
    here.require(copy.blocks == 1 ||
                     copy.destination_stride >= copy.block_bytes,
                 "its blocks lie over each other");
    if (copy.source != -1) {
      here.index(copy.source, program.values.size(), "value");
      const ValueT &from = *program.values[copy.source];
      here.require(from.view_of == -1,
                   "copies bytes of a view; copy those of what it looks into");
      checkBlocks(here, *from.place, copy.source_offset, copy.source_stride,
                  copy);
      requireApart(here, *from.place, copy.destination);
      for (uint64_t b = 0; b < copy.blocks; ++b)
        requireOwned(here, *from.place,
                     copy.source_offset + b * copy.source_stride,
                     copy.block_bytes, storage(copy.source), "reads");
    }
    for (uint64_t b = 0; b < copy.blocks; ++b)
      write(to, copy.destination_offset + b * copy.destination_stride,
            copy.block_bytes, storage(copy.destination));
  }

  void checkCollective(const Checked &outer, const CollectiveT &collective) {
    Checked here = outer.inside("collective");
    here.require(collective.kind <= CollectiveKind::MAX, "its kind is unknown");
    here.require(collective.dtype <= DType::MAX, "its dtype is unknown");
    here.index(collective.mesh_dim, plan.mesh.size(), "mesh dimension");
    here.require(collective.channel == 0,
                 "uses channel " + std::to_string(collective.channel) +
                     ", plans of this version have one");
    if (collective.unit != -1)
      here.index(collective.unit, plan.units.size(), "unit");
    here.index(collective.source, program.values.size(), "value");
    checkTarget(here, collective.destination);
    const ValueT &from = *program.values[collective.source];
    here.require(from.view_of == -1, "sends a view");
    unsigned __int128 one = collective.count;
    one *= dtypeBytes(collective.dtype);
    unsigned __int128 all = one * plan.mesh[collective.mesh_dim]->size;
    bool gather = collective.kind == CollectiveKind::AllGather;
    bool scatter = collective.kind == CollectiveKind::ReduceScatter;
    const Place &to = *program.values[collective.destination]->place;
    here.require(from.place->bytes() == (scatter ? all : one),
                 "its source has " + std::to_string(from.place->bytes()) +
                     " bytes, which is not what it sends");
    here.require(to.bytes() == (gather ? all : one),
                 "its destination has " + std::to_string(to.bytes()) +
                     " bytes, which is not what it receives");
    requireApart(here, *from.place, collective.destination);
    requireOwned(here, *from.place, 0, from.place->bytes(),
                 storage(collective.source), "reads");
    writeValue(collective.destination);
  }

  /// A value that a command may write: not a view.
  void checkTarget(const Checked &here, int64_t i) const {
    here.index(i, program.values.size(), "value");
    here.require(program.values[i]->view_of == -1,
                 "writes " + valueName(i) + ", which is a view");
  }

  void requireReady(const Checked &here, int64_t i) const {
    here.index(i, program.values.size(), "value");
    here.require(ready[i],
                 "reads " + valueName(i) + ", a view that is not made yet");
  }

  /// Reads a whole value; through a view, all that the view may look at.
  void read(const Checked &here, int64_t i) const {
    requireReady(here, i);
    size_t base = i;
    while (program.values[base]->view_of != -1)
      base = program.values[base]->view_of;
    const ValueT &value = *program.values[base];
    requireOwned(here, *value.place, 0,
                 *spanBytes(value.shape, value.strides, value.dtype),
                 storage(i), "reads");
  }

  void requireOwned(const Checked &here, const Place &place, uint64_t offset,
                    uint64_t bytes, int64_t owner, const char *does) const {
    uint64_t begin = place.offset() + offset;
    auto other = owners[place.arena()].firstOther(begin, begin + bytes, owner);
    if (!other)
      return;
    here.fail(std::string(does) + " " + storageName(owner) +
              (*other == ByteOwners::nobody
                   ? " before it is written"
                   : " after " + storageName(*other) + " was written over it"));
  }

  /// A command may not write where it reads.
  void requireApart(const Checked &here, int64_t a, int64_t b) const {
    requireApart(here, *program.values[a]->place, b);
  }
  void requireApart(const Checked &here, const Place &a, int64_t b) const {
    const Place &place = *program.values[b]->place;
    here.require(a.arena() != place.arena() ||
                     a.offset() + a.bytes() <= place.offset() ||
                     place.offset() + place.bytes() <= a.offset() ||
                     !a.bytes() || !place.bytes(),
                 valueName(b) +
                     " shares bytes with what the command also uses");
  }

  void writeValue(int64_t i) {
    const Place &place = *program.values[i]->place;
    write(place, 0, place.bytes(), storage(i));
  }
  void write(const Place &place, uint64_t offset, uint64_t bytes,
             int64_t owner) {
    uint64_t begin = place.offset() + offset;
    owners[place.arena()].write(begin, begin + bytes, owner);
  }

  static constexpr uint64_t maxBlocks = uint64_t(1) << 24;

  const PlanT &plan;
  const ProgramT &program;
  Checked at;
  std::vector<ByteOwners> owners; // per arena
  std::vector<bool> ready;        // the value's tensor is known
  std::set<uint32_t> recorded, updated;
};

} // namespace

void fsdp::plan::checkProgram(const PlanT &plan, const ProgramT &program) {
  ProgramChecker(plan, program).run();
}
