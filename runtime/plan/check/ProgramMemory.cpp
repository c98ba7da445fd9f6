#include "plan/check/ProgramMemory.h"

#include "plan/ProgramOutputs.h"

#include <set>

using namespace fsdp::plan;

ProgramMemory::ProgramMemory(const PlanT &plan, const ProgramT &program,
                             const PlanFacts &facts, const Checked &at,
                             CheckingBudget &budget)
    : budget(budget), plan(plan), program(program), facts(facts),
      memory(plan.arenas.size()), bases(program.values.size()),
      depths(program.values.size()), ready(program.values.size()),
      wasRead(program.values.size()), wasReadWhole(program.values.size()),
      awaited(program.values.size()), updated(plan.states.size()),
      keepers(program.values.size()) {
  for (size_t i = 0; i < program.values.size(); ++i)
    checkValue(at.at(PlanEntry::Value, i), i);

  const Moment beginning{0, 1};
  auto own = [&](const Place &place, int64_t owner) {
    memory[place.arena()].write(place.offset(), place.offset() + place.bytes(),
                                owner, beginning);
  };
  for (size_t s = 0; s < plan.states.size(); ++s)
    if (plan.states[s]->flat == -1)
      own(*plan.states[s]->place, s);
  // Other ranks may still read a window in the program before this one.
  for (const auto &[state, place] : facts.windows)
    memory[windowArena].read(place.offset(), place.offset() + place.bytes(),
                             beginning);
  std::set<std::string> names;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto &input = program.inputs[i];
    Checked here = at.at(PlanEntry::Input, i);
    here.require(C21, !input->name.empty() && names.insert(input->name).second,
                 "its name is empty or used twice");
    requireTarget(here, input->value);
    const ValueT &value = *program.values[input->value];
    here.require(C21, value.state == -1, "is a state");
    const Place &place = *value.place;
    visit(place.arena(), place.offset(), place.offset() + place.bytes(),
          [&](const ByteHistory::Entry &entry) {
            if (entry.owner != ByteHistory::nobody)
              here.fail(C2, "shares bytes with ", ownerName(entry.owner));
          });
    own(place, ownerOf(input->value));
  }
}

void ProgramMemory::checkValue(const Checked &here, size_t i) {
  const ValueT &value = *program.values[i];
  bool view = value.view_of != -1, part = value.part_of != -1;
  here.require(C1, value.dtype <= DType::MAX, "its dtype is unknown");
  checkPlace(here, plan, value.place.get());
  const Place &place = *value.place;
  checkTensor(here, value.shape, value.strides, value.dtype, place, view);
  here.require(C3, view + part + (value.state != -1) <= 1,
               "is two of a view, a part and a state");
  bases[i] = i;
  if (view || part) {
    // Earlier ones only, so that chains of views end.
    const char *what = view ? "view" : "part";
    int of = view ? value.view_of : value.part_of;
    here.require(view ? C3 : C11, of >= 0 && static_cast<size_t>(of) < i,
                 "is a ", what, " of value ", of,
                 ", which is not an earlier one");
    const ValueT &whole = *program.values[of];
    if (view) {
      here.require(C3, samePlace(place, *whole.place),
                   "has another place than the value that it is a view of");
      bases[i] = bases[of];
      depths[i] = depths[of] + 1;
      budget.look(depths[i]);
    } else {
      here.require(C11,
                   place.arena() == whole.place->arena() &&
                       place.offset() >= whole.place->offset() &&
                       place.offset() + place.bytes() <=
                           whole.place->offset() + whole.place->bytes(),
                   "reaches out of the value that it is a part of");
      here.require(
          C11, whole.view_of == -1 && whole.part_of == -1 && whole.state == -1,
          "is a part of a view, of a part or of a state");
      if (auto other =
              parts[of].add(place.offset(), place.offset() + place.bytes(), i))
        here.fail(C11, "shares bytes with ", valueName(*other),
                  ", another part of value ", of);
    }
  }
  ready[i] = !view;
  if (value.state != -1) {
    here.index(value.state, plan.states.size(), "state");
    const StateT &state = *plan.states[value.state];
    here.require(C2,
                 state.flat == -1 && value.dtype == state.dtype &&
                     value.shape == state.local_shape &&
                     value.strides == state.strides &&
                     samePlace(place, *state.place),
                 "differs from state '", state.fqn, "'");
  }
}

std::string ProgramMemory::valueName(size_t i) const {
  const ValueT &value = *program.values[i];
  return "value " + std::to_string(i) + " (" +
         (value.name.empty() ? std::string(dtypeName(value.dtype)) + " " +
                                   formatShape(value.shape)
                             : value.name) +
         ")";
}

/// The owner of what is written through a value: its state, or what it is a
/// view of in the end. States come first, then values.
int64_t ProgramMemory::ownerOf(size_t i) const {
  int state = program.values[bases[i]]->state;
  return state != -1 ? state
                     : static_cast<int64_t>(plan.states.size() + bases[i]);
}
std::string ProgramMemory::ownerName(int64_t owner) const {
  size_t states = plan.states.size(), i = static_cast<size_t>(owner);
  return i < states ? "state '" + plan.states[i]->fqn + "'"
                    : valueName(i - states);
}
/// The owner that `owner` is a part of; `nobody`: none.
int64_t ProgramMemory::wholeOf(int64_t owner) const {
  int64_t i = owner - static_cast<int64_t>(plan.states.size());
  int whole = i < 0 ? -1 : program.values[i]->part_of;
  return whole == -1 ? ByteHistory::nobody : ownerOf(whole);
}

std::optional<uint32_t> ProgramMemory::commandOf(Moment moment) const {
  return moment.index <= 1 ? std::nullopt
                           : std::optional(order.command(moment));
}
std::string ProgramMemory::commandName(Moment moment) const {
  std::optional<uint32_t> i = commandOf(moment);
  if (!i)
    return "the program before";
  return "command " + std::to_string(*i) + " (" +
         program.commands[*i]->location + ", stream " +
         std::to_string(moment.stream) + ")";
}

bool ProgramMemory::make(size_t view) {
  bool isNew = program.values[view]->view_of != -1 && !ready[view];
  ready[view] = true;
  return isNew;
}

bool ProgramMemory::takeOut(size_t i, const StridedRange &range,
                            const ShardRange *on) {
  if (!awaited[i])
    return true;
  auto bytes = [&](size_t v) { return program.values[v]->place->bytes(); };
  auto whole = restored.find(i);
  return taken[{i, on ? on->first() + 1 : 0}].take(range, bytes(i), budget) &&
         (whole == restored.end() ||
          taken[{whole->second, 0}].has(range, bytes(whole->second), budget));
}

void ProgramMemory::requireReady(const Checked &here, int64_t i) const {
  here.index(i, program.values.size(), "value");
  budget.look(depths[i]); // which whoever asks for its base climbs
  if (!ready[i])
    here.fail(C3, "reads ", valueName(i), ", a view that is not made yet");
}

void ProgramMemory::requireTarget(const Checked &here, int64_t i,
                                  bool mapped) const {
  here.index(i, program.values.size(), "value");
  const ValueT &value = *program.values[i];
  if (value.view_of != -1)
    here.fail(C3, "writes ", valueName(i), ", which is a view");
  if (value.state != -1) {
    Role role = plan.states[value.state]->role;
    if (role != Role::Buffer && role != Role::Gradient)
      here.fail(C18, "writes ", valueName(i), ", which only updates may write");
  }
  if ((value.place->arena() == windowArena) != mapped)
    here.fail(C12, "writes ", valueName(i), ", which is ", mapped ? "not " : "",
              "in the window");
}

bool ProgramMemory::isParameter(size_t i) const {
  const ValueT &value = *program.values[i];
  return value.view_of == -1 && value.state != -1 &&
         plan.states[value.state]->role == Role::Parameter;
}

void ProgramMemory::requireApart(const Checked &here, const UsedBytes &used,
                                 int64_t b) const {
  if (used.has(*program.values[b]->place))
    here.fail(C4, valueName(b),
              " shares bytes with what the command also uses");
}

void ProgramMemory::read(const Checked &here, int64_t i) {
  requireReady(here, i);
  read(here, bases[i], 0, program.values[bases[i]]->place->bytes());
}

void ProgramMemory::read(const Checked &here, int64_t i, uint64_t offset,
                         uint64_t bytes) {
  const ValueT &value = *program.values[i];
  // A value of a parameter means what that is before its update.
  if (value.state != -1 && updated[value.state])
    here.fail(C5, "reads ", valueName(i), " after its update");
  readBytes(here, *value.place, offset, bytes, ownerOf(i));
  wasRead[i] = true;
  if (offset == 0 && bytes == value.place->bytes())
    wasReadWhole[i] = true;
  if (value.part_of != -1)
    wasRead[value.part_of] = true;
}

bool ProgramMemory::mayRead(int64_t i, uint64_t offset, uint64_t bytes) const {
  const ValueT &value = *program.values[i];
  int64_t owner = ownerOf(i);
  uint64_t begin = value.place->offset() + offset;
  bool isRight = value.state == -1 || !updated[value.state];
  visit(value.place->arena(), begin, begin + bytes,
        [&](const ByteHistory::Entry &entry) {
          isRight = isRight && entry.owner == owner &&
                    order[now.stream].here.covers(entry.written);
        });
  return isRight;
}

void ProgramMemory::write(const Checked &here, int64_t i) {
  write(here, i, 0, program.values[i]->place->bytes());
}
void ProgramMemory::write(const Checked &here, int64_t i, uint64_t offset,
                          uint64_t bytes) {
  const ValueT &value = *program.values[i];
  writeBytes(here, *value.place, offset, bytes, ownerOf(i));
  if (value.state != -1)
    changeWindow(here, value.state);
  keepers[value.part_of == -1 ? i : value.part_of] = 0;
}

void ProgramMemory::changeWindow(const Checked &here, size_t s) {
  if (auto it = facts.windows.find(s); it != facts.windows.end())
    writeBytes(here, it->second, 0, it->second.bytes(), s, true);
}

void ProgramMemory::update(const Checked &here, size_t s) {
  const Place &place = *plan.states[s]->place;
  readBytes(here, place, 0, place.bytes(), s, "updates");
  writeBytes(here, place, 0, place.bytes(), s);
  changeWindow(here, s);
  updated[s] = true;
}

void ProgramMemory::finish(const Checked &at) {
  order.drain();
  now = order.launch(computeStream, program.commands.size());
  std::set<std::string> names;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const auto &output = program.outputs[i];
    Checked here = at.at(PlanEntry::Output, i);
    here.require(C21,
                 !output->name.empty() && names.insert(output->name).second,
                 "its name is empty or used twice");
    here.require(C21,
                 i == 0 || isNumber(program, *output) ||
                     isEvaluation(plan, program),
                 "it has dimensions, which outputs of 'eval' alone may have");
    read(here, output->value);
  }
  at.require(C21,
             !program.outputs.empty() && program.outputs[0]->name == "loss",
             "its first output is not 'loss'");
  at.require(C21, isNumber(program, *program.outputs[0]),
             "its loss is not one number");
  for (size_t s = 0; s < plan.states.size(); ++s)
    if (plan.states[s]->flat == -1)
      readBytes(at, *plan.states[s]->place, 0, plan.states[s]->place->bytes(),
                s, "ends after");
  for (size_t i = 0; i < program.values.size(); ++i) {
    // Who reads a whole reads its parts.
    int whole = program.values[i]->part_of;
    bool ofAwaited = whole != -1 && awaited[whole] && !wasReadWhole[whole];
    if (!wasRead[i] && (awaited[i] || ofAwaited))
      at.at(PlanEntry::Value, i).fail(C28, "nobody reads what arrives here");
  }
}

/// The bytes are `owner`'s: written by it, by parts of it or by the whole that
/// it is a part of; and that has happened.
void ProgramMemory::readBytes(const Checked &here, const Place &place,
                              uint64_t offset, uint64_t bytes, int64_t owner,
                              const char *does) {
  uint64_t begin = place.offset() + offset, end = begin + bytes;
  visit(place.arena(), begin, end, [&](const ByteHistory::Entry &entry) {
    if (entry.owner == ByteHistory::nobody)
      here.fail(C5, does, " ", ownerName(owner), " before it is written");
    if (entry.owner != owner && wholeOf(entry.owner) != owner &&
        wholeOf(owner) != entry.owner)
      here.fail(C5, does, " ", ownerName(owner), " after ",
                ownerName(entry.owner), " was written over it");
    if (!order[now.stream].here.covers(entry.written))
      here.failToAwait(C9, commandOf(entry.written), does, " ",
                       ownerName(owner), ", which ", commandName(entry.written),
                       " writes, without waiting for it");
  });
  memory[place.arena()].read(begin, end, now);
}

/// What was there has been written and read; `everywhere`: read by all ranks.
void ProgramMemory::writeBytes(const Checked &here, const Place &place,
                               uint64_t offset, uint64_t bytes, int64_t owner,
                               bool everywhere) {
  uint64_t begin = place.offset() + offset, end = begin + bytes;
  const HappensBefore::Knowledge &known = order[now.stream];
  const Clock &readers = everywhere ? known.everywhere : known.here;
  visit(place.arena(), begin, end, [&](const ByteHistory::Entry &entry) {
    if (entry.owner != owner && wholeOf(entry.owner) == owner &&
        owner != ByteHistory::nobody)
      here.fail(C11, "writes ", ownerName(owner), " over ",
                ownerName(entry.owner), ", which is a part of it");
    if (!known.here.covers(entry.written))
      here.failToAwait(C10, commandOf(entry.written), "writes ",
                       ownerName(owner), " where ", commandName(entry.written),
                       " writes, without waiting for it");
    for (uint32_t s = 0; s < maxStreams; ++s)
      if (Moment last{s, entry.read[s]}; !readers.covers(last))
        here.failToAwait(everywhere ? C12 : C10, commandOf(last), "writes ",
                         ownerName(owner), " where ", commandName(last),
                         everywhere
                             ? " reads, with no collective in between that "
                               "tells it of all ranks; use gather=copy"
                             : " reads, without waiting for it");
  });
  memory[place.arena()].write(begin, end, owner, now);
}
