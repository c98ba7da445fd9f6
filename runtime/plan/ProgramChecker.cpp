// Checks one program: first what each value is, then the commands in order, as
// a simulation of who owns which bytes, and of what has happened by then on
// this rank and on all.
//
// Two commands that touch the same bytes, one of them writing, are ordered by
// HappensBefore, or the plan is refused. So every way that the streams can run
// gives each read the bytes that the list's own order gives it.
#include "plan/ByteHistory.h"
#include "plan/CheckerSupport.h"

#include <map>
#include <set>

using namespace fsdp::plan;

namespace {

class ProgramChecker {
public:
  ProgramChecker(const PlanT &plan, const ProgramT &program,
                 const Windows &windows)
      : plan(plan), program(program), windows(windows),
        at("program '" + program.name + "'"), memory(plan.arenas.size()),
        bases(program.values.size()), ready(program.values.size()) {}

  void run() {
    checkScalars(at, program.scalars, plan.group_learning_rates.size());
    at.require(program.live_bytes <= plan.arenas[deviceArena]->bytes,
               "needs " + std::to_string(program.live_bytes) +
                   " bytes at once, more than the device arena has");
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

  /// The owner of what is written through a value: its state, or what it is a
  /// view of in the end. States come first, then values.
  int64_t ownerOf(size_t i) const {
    int state = program.values[bases[i]]->state;
    return state != -1 ? state
                       : static_cast<int64_t>(plan.states.size() + bases[i]);
  }
  std::string ownerName(int64_t owner) const {
    size_t states = plan.states.size(), i = static_cast<size_t>(owner);
    return i < states ? "state '" + plan.states[i]->fqn + "'"
                      : valueName(i - states);
  }
  /// The owner that `owner` is a part of; -1: none.
  int64_t wholeOf(int64_t owner) const {
    int64_t i = owner - static_cast<int64_t>(plan.states.size());
    int whole = i < 0 ? -1 : program.values[i]->part_of;
    return whole == -1 ? -1 : ownerOf(whole);
  }

  void checkValue(size_t i) {
    const ValueT &value = *program.values[i];
    Checked here = at.inside(valueName(i));
    here.require(value.dtype <= DType::MAX, "its dtype is unknown");
    checkPlace(here, plan, value.place.get());
    checkTensor(here, value.shape, value.strides, value.dtype, *value.place);
    here.require((value.view_of != -1) + (value.part_of != -1) +
                         (value.state != -1) <=
                     1,
                 "is two of a view, a part and a state");
    bases[i] = value.view_of == -1 ? i : value.view_of;
    if (int of = value.view_of != -1 ? value.view_of : value.part_of;
        of != -1) {
      // Earlier ones only, so that chains of views end.
      const char *what = value.view_of != -1 ? "view of " : "part of ";
      here.require(of >= 0 && static_cast<size_t>(of) < i,
                   std::string("is a ") + what + "value " + std::to_string(of) +
                       ", which is not an earlier one");
      const ValueT &base = *program.values[of];
      here.require(value.place->arena() == base.place->arena() &&
                       value.place->offset() >= base.place->offset() &&
                       value.place->offset() + value.place->bytes() <=
                           base.place->offset() + base.place->bytes(),
                   std::string("reaches out of the value that it is a ") +
                       what);
      here.require(
          value.part_of == -1 ||
              (base.view_of == -1 && base.part_of == -1 && base.state == -1),
          "is a part of a view, a part or a state");
      bases[i] = value.view_of == -1 ? i : bases[of];
    }
    if (value.state != -1) {
      here.index(value.state, plan.states.size(), "state");
      const StateT &state = *plan.states[value.state];
      here.require(state.flat == -1, "is state '" + state.fqn +
                                         "', whose memory is a flat state's");
      here.require(value.dtype == state.dtype &&
                       value.shape == state.local_shape &&
                       value.strides == state.strides &&
                       samePlace(*value.place, *state.place),
                   "differs from state '" + state.fqn + "'");
    }
  }

  void start() {
    const Moment beginning{0, 1};
    auto own = [&](const Place &place, int64_t owner) {
      memory[place.arena()].write(
          place.offset(), place.offset() + place.bytes(), owner, beginning);
    };
    for (size_t s = 0; s < plan.states.size(); ++s)
      if (plan.states[s]->flat == -1)
        own(*plan.states[s]->place, s);
    // Other ranks may still read a window in the program before this one.
    for (const auto &[state, place] : windows)
      memory[windowArena].read(place.offset(), place.offset() + place.bytes(),
                               beginning);
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
      memory[place.arena()].visit(
          place.offset(), place.offset() + place.bytes(),
          [&](const ByteHistory::Entry &entry) {
            if (entry.owner != ByteHistory::nobody)
              here.fail("shares bytes with " + ownerName(entry.owner));
          });
      own(place, ownerOf(input->value));
    }
  }

  /// All streams have run out: outputs and states are right then.
  void finish() {
    order.drain();
    now = order.launch(computeStream, program.commands.size());
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
      if (plan.states[s]->flat == -1)
        readBytes(at, *plan.states[s]->place, 0, plan.states[s]->place->bytes(),
                  s, "ends after");
  }

  void checkCommand(size_t i) {
    const CommandT &command = *program.commands[i];
    Checked here = at.inside(
        "command " + std::to_string(i) +
        (command.location.empty() ? "" : " (" + command.location + ")"));
    here.require(command.stream < maxStreams,
                 "runs on stream " + std::to_string(command.stream) +
                     ", there are at most " + std::to_string(maxStreams));
    const OperationUnion &operation = command.operation;
    here.require(operation.value, "has no operation");
    now = order.launch(command.stream, i);
    bool computes = operation.type == Operation::Aten ||
                    operation.type == Operation::Update ||
                    operation.type == Operation::Copy;
    here.require(!computes || command.stream == computeStream,
                 "computes on stream " + std::to_string(command.stream) +
                     ", which is for collectives");
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
      here.require(order.record(operation.AsRecord()->event, command.stream),
                   "records an event for the second time");
      return;
    case Operation::Wait:
      here.index(operation.AsWait()->event, program.events, "event");
      here.require(order.wait(operation.AsWait()->event, command.stream),
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
          requireApart(here, *program.values[argument]->place, result);
        writeValue(here, result);
        continue;
      }
      here.require(program.values[result]->view_of != -1 && !ready[result],
                   valueName(result) + " is not a view, or made twice");
      bool ofArgument = false;
      for (int argument : arguments)
        ofArgument |= bases[argument] == bases[result];
      here.require(ofArgument,
                   valueName(result) + " is not a view of an argument");
      ready[result] = true;
    }
  }

  void checkUpdate(const Checked &here, const UpdateT &update) {
    here.index(update.rule, plan.rules.size(), "rule");
    here.index(update.parameter, plan.states.size(), "state");
    const RuleT &rule = *plan.rules[update.rule];
    const StateT &parameter = *plan.states[update.parameter];
    here.require(parameter.role == Role::Parameter && parameter.flat == -1,
                 "updates '" + parameter.fqn + "', which is no parameter");
    checkRange(here, update, parameter);
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
      const Place &place = *plan.states[s]->place;
      readBytes(here, place, 0, place.bytes(), s, "updates");
      requireApart(here, place, update.gradient);
      writeBytes(here, place, 0, place.bytes(), s);
      if (auto window = windows.find(s); window != windows.end())
        writeBytes(here, window->second, 0, window->second.bytes(), s, true);
    };
    touch(update.parameter);
    std::set<uint32_t> states;
    for (size_t i = 0; i < update.states.size(); ++i) {
      here.index(update.states[i], plan.states.size(), "state");
      const StateT &state = *plan.states[update.states[i]];
      here.require(state.parameter == static_cast<int64_t>(update.parameter) &&
                       state.flat == -1 &&
                       states.insert(update.states[i]).second,
                   "'" + state.fqn + "' is not state of '" + parameter.fqn +
                       "', or given twice");
      here.require(state.local_shape == parameter.local_shape,
                   "'" + state.fqn + "' and '" + parameter.fqn +
                       "' have different shapes");
      here.require(rule.dtypes[2 + i] == state.dtype,
                   "rule '" + rule.name + "' is of other dtypes");
      touch(update.states[i]);
    }
  }

  /// An update is of all of a parameter, once; or of a range of a flat one that
  /// no other update of it touches.
  void checkRange(const Checked &here, const UpdateT &update,
                  const StateT &parameter) {
    auto [begin, end] = std::make_pair(update.begin, update.end);
    if (!begin && !end)
      end = *numElements(parameter.shape);
    else
      here.require(parameter.is_flat && begin < end &&
                       end <= uint64_t(*numElements(parameter.shape)),
                   "updates a range that '" + parameter.fqn +
                       "' does not have");
    // By their ends: the first that ends after `begin` must start after `end`.
    std::map<uint64_t, uint64_t> &others = updated[update.parameter];
    auto next = others.upper_bound(begin);
    here.require((next == others.end() || next->second >= end) &&
                     !others.count(end),
                 "updates '" + parameter.fqn + "' for the second time");
    others.emplace(end, begin);
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
      requireUnchanged(here, copy.source);
      for (uint64_t b = 0; b < copy.blocks; ++b)
        readBytes(here, *from.place,
                  copy.source_offset + b * copy.source_stride, copy.block_bytes,
                  ownerOf(copy.source), "reads");
    }
    for (uint64_t b = 0; b < copy.blocks; ++b)
      writeBytes(here, to,
                 copy.destination_offset + b * copy.destination_stride,
                 copy.block_bytes, ownerOf(copy.destination));
  }

  void checkCollective(const Checked &outer, const CollectiveT &collective) {
    Checked here = outer.inside("collective");
    here.require(collective.kind <= CollectiveKind::MAX, "its kind is unknown");
    here.require(collective.dtype <= DType::MAX, "its dtype is unknown");
    here.index(collective.mesh_dim, plan.mesh.size(), "mesh dimension");
    auto used = channels.emplace(collective.channel, now.stream).first;
    here.require(used->second == now.stream,
                 "channel " + std::to_string(collective.channel) +
                     " is used by streams " + std::to_string(used->second) +
                     " and " + std::to_string(now.stream) +
                     ", so ranks could disagree on the order");
    if (collective.unit != -1)
      here.index(collective.unit, plan.units.size(), "unit");
    bool gather = collective.kind == CollectiveKind::AllGather;
    bool scatter = collective.kind == CollectiveKind::ReduceScatter;
    double divisor = scatter ? plan.gradient_divisor : 1;
    here.require(collective.divisor == divisor,
                 "divides by " + std::to_string(collective.divisor) + ", not " +
                     std::to_string(divisor));
    here.index(collective.source, program.values.size(), "value");
    checkTarget(here, collective.destination, collective.mapped);
    const ValueT &from = *program.values[collective.source];
    const ValueT &into = *program.values[collective.destination];
    here.require(from.view_of == -1, "sends a view");
    here.require(from.dtype == collective.dtype &&
                     into.dtype == collective.dtype,
                 "moves " + std::string(dtypeName(collective.dtype)) +
                     ", its values are " + dtypeName(from.dtype) + " and " +
                     dtypeName(into.dtype));
    unsigned __int128 one = collective.count;
    one *= dtypeBytes(collective.dtype);
    unsigned __int128 all = one * plan.mesh[collective.mesh_dim]->size;
    here.require(from.place->bytes() == (scatter ? all : one),
                 "its source has " + std::to_string(from.place->bytes()) +
                     " bytes, which is not what it sends");
    here.require(into.place->bytes() == (gather ? all : one),
                 "its destination has " + std::to_string(into.place->bytes()) +
                     " bytes, which is not what it receives");
    requireApart(here, *from.place, collective.destination);
    requireUnchanged(here, collective.source);
    order.meet(now.stream);
    readBytes(here, *from.place, 0, from.place->bytes(),
              ownerOf(collective.source), "reads");
    writeValue(here, collective.destination);
  }

  /// A value that a command may write: memory of the program's own or a buffer.
  /// Mapped gathers, and nothing else, write the window.
  void checkTarget(const Checked &here, int64_t i, bool mapped = false) const {
    here.index(i, program.values.size(), "value");
    const ValueT &value = *program.values[i];
    here.require(value.view_of == -1,
                 "writes " + valueName(i) + ", which is a view");
    here.require(value.state == -1 ||
                     plan.states[value.state]->role == Role::Buffer,
                 "writes " + valueName(i) + ", which only updates may write");
    here.require((value.place->arena() == windowArena) == mapped,
                 "writes " + valueName(i) +
                     (mapped ? ", which is not in the window"
                             : ", which is in the window"));
  }

  void requireReady(const Checked &here, int64_t i) const {
    here.index(i, program.values.size(), "value");
    here.require(ready[i],
                 "reads " + valueName(i) + ", a view that is not made yet");
  }

  /// A value of a parameter means what that is before its update.
  void requireUnchanged(const Checked &here, int64_t i) const {
    int state = program.values[bases[i]]->state;
    here.require(state == -1 || !updated.count(state),
                 "reads " + valueName(i) + " after its update");
  }

  /// Reads a whole value; through a view, all that the view may look at.
  void read(const Checked &here, int64_t i) {
    requireReady(here, i);
    requireUnchanged(here, i);
    const ValueT &value = *program.values[bases[i]];
    readBytes(here, *value.place, 0,
              *spanBytes(value.shape, value.strides, value.dtype), ownerOf(i),
              "reads");
  }

  /// The bytes are `owner`'s: written by it, by parts of it or by the whole
  /// that it is a part of; and that has happened.
  void readBytes(const Checked &here, const Place &place, uint64_t offset,
                 uint64_t bytes, int64_t owner, const char *does) {
    uint64_t begin = place.offset() + offset, end = begin + bytes;
    ByteHistory &history = memory[place.arena()];
    history.visit(begin, end, [&](const ByteHistory::Entry &entry) {
      if (entry.owner == ByteHistory::nobody)
        here.fail(std::string(does) + " " + ownerName(owner) +
                  " before it is written");
      if (entry.owner != owner && wholeOf(entry.owner) != owner &&
          wholeOf(owner) != entry.owner)
        here.fail(std::string(does) + " " + ownerName(owner) + " after " +
                  ownerName(entry.owner) + " was written over it");
      if (!order[now.stream].here.covers(entry.written))
        here.fail(std::string(does) + " " + ownerName(owner) + ", which " +
                  commandName(entry.written) +
                  " writes, without waiting for it");
    });
    history.read(begin, end, now);
  }

  /// A command may not write where it reads.
  void requireApart(const Checked &here, const Place &a, int64_t b) const {
    const Place &place = *program.values[b]->place;
    here.require(a.arena() != place.arena() ||
                     a.offset() + a.bytes() <= place.offset() ||
                     place.offset() + place.bytes() <= a.offset() ||
                     !a.bytes() || !place.bytes(),
                 valueName(b) +
                     " shares bytes with what the command also uses");
  }

  void writeValue(const Checked &here, int64_t i) {
    const Place &place = *program.values[i]->place;
    writeBytes(here, place, 0, place.bytes(), ownerOf(i));
  }

  /// What lay there is written and read; `everywhere`: read by all ranks.
  void writeBytes(const Checked &here, const Place &place, uint64_t offset,
                  uint64_t bytes, int64_t owner, bool everywhere = false) {
    uint64_t begin = place.offset() + offset, end = begin + bytes;
    ByteHistory &history = memory[place.arena()];
    const HappensBefore::Knowledge &known = order[now.stream];
    const Clock &readers = everywhere ? known.everywhere : known.here;
    history.visit(begin, end, [&](const ByteHistory::Entry &entry) {
      // A part is not written over by its whole or its sibling.
      if (entry.owner != owner && wholeOf(entry.owner) != -1 &&
          (wholeOf(entry.owner) == owner ||
           wholeOf(entry.owner) == wholeOf(owner)))
        here.fail("writes " + ownerName(owner) + " over " +
                  ownerName(entry.owner) + ", which lies in the same value");
      if (!known.here.covers(entry.written))
        here.fail("writes " + ownerName(owner) + " where " +
                  commandName(entry.written) +
                  " writes, without waiting for it");
      for (uint32_t s = 0; s < maxStreams; ++s)
        if (Moment last{s, entry.read[s]}; !readers.covers(last))
          here.fail("writes " + ownerName(owner) + " where " +
                    commandName(last) + " reads" +
                    (everywhere ? ", with no collective in between that tells "
                                  "of all ranks"
                                : ", without waiting for it"));
    });
    history.write(begin, end, owner, now);
  }

  std::string commandName(Moment moment) const {
    if (moment.index <= 1)
      return "the program before";
    uint32_t i = order.command(moment);
    return "command " + std::to_string(i) + " (" +
           program.commands[i]->location + ", stream " +
           std::to_string(moment.stream) + ")";
  }

  static constexpr uint64_t maxBlocks = uint64_t(1) << 24;

  const PlanT &plan;
  const ProgramT &program;
  const Windows &windows;
  Checked at;
  std::vector<ByteHistory> memory; // per arena
  HappensBefore order;
  Moment now;                // of the command that is checked
  std::vector<size_t> bases; // what a view looks into in the end; or itself
  std::vector<bool> ready;   // the value's tensor is known
  std::map<uint32_t, uint32_t> channels;                    // their streams
  std::map<uint32_t, std::map<uint64_t, uint64_t>> updated; // ends to begins
};

} // namespace

void fsdp::plan::checkProgram(const PlanT &plan, const ProgramT &program,
                              const Windows &windows) {
  ProgramChecker(plan, program, windows).run();
}
