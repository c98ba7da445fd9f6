#include "Meaning.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace fsdp::plan;

namespace {

using Hash = uint64_t;

Hash mix(Hash a, Hash b) {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  return (a ^ (a >> 31)) * 0xbf58476d1ce4e5b9;
}
Hash hashOf(const std::string &text) { return std::hash<std::string>()(text); }

struct Access {
  uint32_t arena;
  uint64_t begin, end;
  bool write;
};

Access whole(const Place &place, bool write) {
  return {place.arena(), place.offset(), place.offset() + place.bytes(), write};
}

size_t baseOf(const ProgramT &program, size_t i) {
  while (program.values[i]->view_of != -1)
    i = program.values[i]->view_of;
  return i;
}

std::map<uint32_t, Place> windowsOf(const PlanT &plan) {
  std::map<uint32_t, Place> windows;
  for (const auto &program : plan.programs)
    for (const auto &command : program->commands)
      if (const CollectiveT *c = command->operation.AsCollective();
          c && c->mapped)
        windows[program->values[c->source]->state] =
            *program->values[c->destination]->place;
  return windows;
}

/// Where an update changes its parameter: in its state, or in a staged copy.
Place changedBy(const PlanT &plan, const ProgramT &program,
                const UpdateT &update) {
  return update.staged == -1 ? *plan.states[update.parameter]->place
                             : *program.values[update.staged]->place;
}

/// The values that an argument is; -1: none.
std::vector<int> operandsOf(const ArgumentT &argument) {
  if (argument.kind == ArgumentKind::Value)
    return {argument.value};
  return argument.values; // of a list
}

/// What a command touches. A view's call touches nothing.
std::vector<Access> accessesOf(const PlanT &plan, const ProgramT &program,
                               const CommandT &command) {
  std::vector<Access> touched;
  auto value = [&](int i, bool write) {
    if (i != -1)
      touched.push_back(
          whole(*program.values[baseOf(program, i)]->place, write));
  };
  if (const AtenT *call = command.operation.AsAten(); call && !call->view) {
    for (const auto &argument : call->arguments)
      for (int operand : operandsOf(*argument))
        value(operand, false);
    for (int result : call->results)
      value(result, true);
  } else if (const UpdateT *update = command.operation.AsUpdate()) {
    for (int operand : {int(update->gradient), update->scale, update->skip})
      value(operand, false);
    for (int given : update->given)
      value(given, false);
    std::vector<Place> changed{changedBy(plan, program, *update)};
    for (uint32_t s : update->states)
      changed.push_back(*plan.states[s]->place);
    for (const Place &place : changed)
      for (bool write : {false, true})
        touched.push_back(whole(place, write));
  } else if (const CopyT *copy = command.operation.AsCopy()) {
    auto blocks = [&](const PieceT &piece, int i, uint64_t offset,
                      uint64_t stride, bool write) {
      const Place &place = *program.values[i]->place;
      for (uint64_t b = 0; b < piece.blocks; ++b) {
        uint64_t begin = place.offset() + offset + b * stride;
        touched.push_back(
            {place.arena(), begin, begin + piece.block_bytes, write});
      }
    };
    for (const auto &piece : copy->pieces) {
      // Of what neighbours keep, one rank or another reads each part.
      for (uint32_t owner = 0; piece->source != -1 && owner < piece->owners;
           ++owner)
        blocks(*piece, piece->source,
               piece->source_offset + owner * piece->block_bytes,
               piece->source_stride, false);
      blocks(*piece, piece->destination, piece->destination_offset,
             piece->destination_stride, true);
    }
  } else if (const CollectiveT *c = command.operation.AsCollective()) {
    value(c->source, false);
    value(c->destination, true);
  }
  return touched;
}

/// All that a command is, but for where its values lie.
Hash nameOf(const CommandT &command) {
  Hash name = mix(0, static_cast<Hash>(command.operation.type));
  if (const AtenT *call = command.operation.AsAten()) {
    name = mix(name, hashOf(call->name + "." + call->overload));
    name = mix(name, std::hash<double>()(call->measured_seconds.value_or(1)));
    for (const auto &a : call->arguments) {
      name = mix(name, static_cast<Hash>(a->kind) * 31 + a->i);
      for (int64_t i : a->ints)
        name = mix(name, i);
      for (double d : a->doubles)
        name = mix(name, std::hash<double>()(d));
      name =
          mix(mix(name, std::hash<double>()(a->d.value_or(0))), hashOf(a->s));
      if (a->kind == ArgumentKind::Scalar)
        name = mix(name, a->value);
    }
  } else if (const UpdateT *update = command.operation.AsUpdate()) {
    name = mix(name, update->rule);
  } else if (const CollectiveT *c = command.operation.AsCollective()) {
    name = mix(mix(mix(name, static_cast<Hash>(c->kind)), c->mesh_dim),
               c->mesh_dims);
    name = mix(mix(name, static_cast<Hash>(c->dtype)), c->count);
    name = mix(name, std::hash<double>()(c->divisor));
    name = mix(mix(name, static_cast<Hash>(c->op)), c->ranks);
  }
  return name;
}

/// A rank's memory, whose every byte is a symbol.
class Symbols {
public:
  Symbols(const PlanT &plan, uint64_t rank)
      : plan(plan), shard(shardGroupOf(plan, rank).indexOf(rank)),
        windows(windowsOf(plan)), bytes(plan.arenas.size()) {
    for (size_t a = 0; a < bytes.size(); ++a)
      bytes[a].assign(plan.arenas[a]->bytes, 0);
  }

  Hash run(const ProgramT &program) {
    for (size_t s = 0; s < plan.states.size(); ++s)
      if (plan.states[s]->flat == -1)
        fill(*plan.states[s]->place, mix(hashOf("state"), s));
    for (const auto &input : program.inputs)
      fill(*program.values[input->value]->place, hashOf(input->name));
    for (const auto &command : program.commands)
      step(program, *command);
    Hash result = mix(mix(hashOf(program.name), program.live_bytes),
                      program.host_live_bytes);
    for (const auto &output : program.outputs)
      result = mix(
          result, mix(hashOf(output->name), valueHash(program, output->value)));
    // What lies between a flat state's members is nobody's.
    for (const auto &state : plan.states)
      if (!state->is_flat)
        result = mix(result, read(heldPart(*state)));
    return result;
  }

private:
  /// The elements [begin, end) of a flat state that this rank holds, as ones of
  /// its own piece.
  std::pair<uint64_t, uint64_t> held(const StateT &flat, uint64_t begin,
                                     uint64_t end) const {
    uint64_t count = *numElements(flat.local_shape), first = shard * count;
    auto own = [&](uint64_t i) {
      return std::min(std::max(i, first) - first, count);
    };
    return {own(begin), own(end)};
  }
  /// The bytes of a state on this rank.
  Access heldPart(const StateT &state) const {
    Access all = whole(*state.place, false);
    if (state.flat == -1)
      return all;
    auto [first, last] = held(*plan.states[state.flat], state.flat_offset,
                              state.flat_offset + *numElements(state.shape));
    uint64_t size = dtypeBytes(state.dtype);
    return {all.arena, all.begin + first * size, all.begin + last * size,
            false};
  }

  void fill(const Access &range, Hash symbol) {
    for (uint64_t i = range.begin; i < range.end; ++i)
      bytes[range.arena][i] = mix(symbol, i - range.begin);
  }
  void fill(const Place &place, Hash symbol) {
    fill(whole(place, true), symbol);
  }
  Hash read(const Access &range) const {
    Hash sum = range.end - range.begin;
    for (uint64_t i = range.begin; i < range.end; ++i)
      sum = mix(sum, bytes[range.arena][i]);
    return sum;
  }
  /// A view is what it looks into and how: its shape and strides.
  Hash valueHash(const ProgramT &program, int i) const {
    const ValueT &value = *program.values[i];
    Hash hash = read(whole(*program.values[baseOf(program, i)]->place, false));
    for (const auto &list : {value.shape, value.strides})
      for (int64_t n : list)
        hash = mix(hash, n);
    return mix(hash, static_cast<Hash>(value.dtype));
  }

  void step(const ProgramT &program, const CommandT &command) {
    Hash made = nameOf(command);
    if (const CopyT *copy = command.operation.AsCopy())
      return move(program, *copy);
    if (const CollectiveT *c = command.operation.AsCollective())
      return exchange(program, *c, made);
    if (const UpdateT *update = command.operation.AsUpdate())
      return change(program, *update, made);
    const AtenT *call = command.operation.AsAten();
    if (!call || call->view || !runsOn(call->on.get(), shard))
      return;
    for (const auto &argument : call->arguments)
      for (int i : operandsOf(*argument))
        made = mix(made, i == -1 ? 1 : valueHash(program, i));
    for (size_t r = 0; r < call->results.size(); ++r)
      if (call->results[r] != -1)
        fill(*program.values[call->results[r]]->place, mix(made, r));
  }

  void move(const ProgramT &program, const CopyT &copy) {
    for (const auto &piece : copy.pieces)
      if (runsOn(piece->on.get(), shard))
        move(program, *piece);
  }
  void move(const ProgramT &program, const PieceT &copy) {
    const Place &to = *program.values[copy.destination]->place;
    uint64_t own = copy.owners ? shard % copy.owners * copy.block_bytes : 0;
    for (uint64_t b = 0; b < copy.blocks; ++b)
      for (uint64_t i = 0; i < copy.block_bytes; ++i) {
        Hash &byte = bytes[to.arena()][to.offset() + copy.destination_offset +
                                       b * copy.destination_stride + i];
        byte = 0;
        if (copy.source == -1)
          continue;
        const Place &from = *program.values[copy.source]->place;
        byte = bytes[from.arena()][from.offset() + copy.source_offset + own +
                                   b * copy.source_stride + i];
      }
    changeWindow(program.values[copy.destination]->state, hashOf("copied"));
  }

  /// What a window shows has changed without its gather.
  void changeWindow(int64_t state, Hash made) {
    if (auto it = windows.find(state); it != windows.end())
      fill(it->second, mix(made, ~state));
  }

  void exchange(const ProgramT &program, const CollectiveT &c, Hash made) {
    const Place &from = *program.values[c.source]->place;
    const Place &to = *program.values[c.destination]->place;
    Hash sent = read(whole(from, false));
    for (uint64_t i = 0; i < to.bytes(); ++i) {
      // A gather's byte is one of the source, of the rank whose piece it is in.
      Hash symbol =
          c.kind == CollectiveKind::AllGather && from.bytes()
              ? mix(i / from.bytes(),
                    bytes[from.arena()][from.offset() + i % from.bytes()])
              : mix(sent, i);
      bytes[to.arena()][to.offset() + i] = mix(made, symbol);
    }
  }

  /// A rule is pointwise: an element becomes what its operands' were.
  void change(const ProgramT &program, const UpdateT &update, Hash made) {
    std::vector<std::pair<uint32_t, Place>> states{
        {update.parameter, changedBy(plan, program, update)}};
    for (uint32_t s : update.states)
      states.push_back({s, *plan.states[s]->place});
    const StateT &parameter = *plan.states[update.parameter];
    uint64_t first = 0, last = *numElements(parameter.local_shape);
    if (update.begin || update.end)
      std::tie(first, last) = held(parameter, update.begin, update.end);
    auto element = [&](const Place &place, DType dtype, uint64_t i) {
      uint64_t size = dtypeBytes(dtype), begin = place.offset() + i * size;
      return Access{place.arena(), begin, begin + size, true};
    };
    for (int scalar : {update.scale, update.skip})
      made = mix(made, scalar == -1 ? 1 : valueHash(program, scalar));
    std::vector<int> pointwise{static_cast<int>(update.gradient)};
    for (int given : update.given)
      if (program.values[given]->shape == parameter.local_shape)
        pointwise.push_back(given);
      else
        made = mix(made, valueHash(program, given));
    for (uint64_t i = first; i < last; ++i) {
      Hash symbol = made;
      for (int v : pointwise)
        symbol =
            mix(symbol, read(element(*program.values[baseOf(program, v)]->place,
                                     program.values[v]->dtype, i)));
      for (const auto &[s, place] : states)
        symbol = mix(symbol, read(element(place, plan.states[s]->dtype, i)));
      for (const auto &[s, place] : states)
        fill(element(place, plan.states[s]->dtype, i), mix(symbol, s));
    }
    if (update.staged == -1)
      changeWindow(update.parameter, made);
  }

  const PlanT &plan;
  uint64_t shard; // which part of sharded states this rank has
  std::map<uint32_t, Place> windows;
  std::vector<std::vector<Hash>> bytes; // per arena
};

/// For each command, those that happen before it, itself included.
std::vector<std::vector<bool>> pasts(const ProgramT &program) {
  size_t count = program.commands.size();
  std::vector<std::vector<bool>> past(count, std::vector<bool>(count));
  std::map<uint32_t, size_t> last, recorded;
  for (size_t i = 0; i < count; ++i) {
    const CommandT &command = *program.commands[i];
    auto after = [&](const std::map<uint32_t, size_t> &map, uint32_t key) {
      if (auto it = map.find(key); it != map.end())
        for (size_t k = 0; k < count; ++k)
          past[i][k] = past[i][k] || past[it->second][k];
    };
    after(last, command.stream);
    if (const WaitT *wait = command.operation.AsWait())
      after(recorded, wait->event);
    past[i][i] = true;
    last[command.stream] = i;
    if (const RecordT *record = command.operation.AsRecord())
      recorded[record->event] = i;
  }
  return past;
}

bool overlap(const Access &a, const Access &b) {
  return a.arena == b.arena && a.begin < b.end && b.begin < a.end;
}

bool isOrdered(const PlanT &plan, const ProgramT &program) {
  size_t count = program.commands.size();
  std::vector<std::vector<bool>> past = pasts(program);
  std::vector<std::vector<Access>> touched(count);
  for (size_t i = 0; i < count; ++i)
    touched[i] = accessesOf(plan, program, *program.commands[i]);
  for (size_t j = 0; j < count; ++j)
    for (size_t i = 0; i < j; ++i)
      if (!past[j][i])
        for (const Access &a : touched[i])
          for (const Access &b : touched[j])
            if ((a.write || b.write) && overlap(a, b))
              return false;
  // Between a write of a state and each read of its window, on any rank.
  for (const auto &[state, place] : windowsOf(plan)) {
    Access shown = whole(place, false),
           source = whole(*plan.states[state]->place, true);
    for (size_t j = 0; j < count; ++j)
      for (const Access &b : touched[j])
        if (b.write && overlap(b, source))
          for (size_t i = 0; i < j; ++i)
            for (const Access &a : touched[i])
              if (!a.write && overlap(a, shown)) {
                bool met = false;
                for (size_t c = i + 1; c < j && !met; ++c) {
                  const auto *meeting =
                      program.commands[c]->operation.AsCollective();
                  met = meeting && isOver(plan, *meeting, AxisRole::Shard) &&
                        !meeting->ranks && past[c][i] && past[j][c];
                }
                if (!met)
                  return false;
              }
  }
  return true;
}

} // namespace

uint64_t fsdp::test::meaningOf(const PlanT &plan) {
  Hash meaning = 0;
  for (uint64_t rank = 0; rank < numRanks(plan); ++rank)
    for (const auto &program : plan.programs)
      meaning = mix(meaning, Symbols(plan, rank).run(*program));
  return meaning;
}

bool fsdp::test::isOrdered(const PlanT &plan) {
  for (const auto &program : plan.programs)
    if (!::isOrdered(plan, *program))
      return false;
  return true;
}
