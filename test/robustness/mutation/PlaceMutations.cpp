// When a command runs, and where its values lie.
#include "Staging.h"

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

Said drop(PlanT &plan, Random &random, Operation type) {
  auto site = findCommand(plan, random, type);
  if (!site)
    return {};
  Said said = say(site->text(), bufferOf(plan, *site));
  auto &commands = site->program->commands;
  commands.erase(commands.begin() + site->at);
  return said;
}

Said reuseEarly(PlanT &plan, Random &random) {
  auto site = findValue(plan, random, isOwn);
  if (!site)
    return {};
  // Onto another value of the program that has room for it.
  std::vector<size_t> others;
  for (size_t i = 0; i < site->program->values.size(); ++i) {
    const ValueT &other = *site->program->values[i];
    const Place &place = *site->value().place;
    if (other.view_of == -1 && other.place->arena() == place.arena() &&
        other.place->offset() != place.offset() &&
        other.place->bytes() >= place.bytes())
      others.push_back(i);
  }
  auto chosen = pick(others.size(), random);
  if (!chosen)
    return {};
  const Place to = *site->program->values[others[*chosen]]->place;
  moveValue(*site->program, site->at, to);
  return say("value ", site->text(), " onto ", others[*chosen]);
}

Said swapCollectives(PlanT &plan, Random &random) {
  auto first = findCommand(plan, random, Operation::Collective);
  if (!first)
    return {};
  auto second = findCommand(
      plan, random, [&](const ProgramT &program, const CommandT &command) {
        return &program == first->program && &command != &first->command() &&
               command.operation.type == Operation::Collective;
      });
  if (!second)
    return {};
  std::swap(first->command().operation, second->command().operation);
  return say(first->text(), " and ", second->at);
}

Said readWhatIsNotThere(PlanT &plan, Random &random) {
  auto site = findCommand(plan, random, Operation::Aten);
  if (!site)
    return {};
  std::vector<int> later; // Written at this command or behind it.
  for (size_t i = site->at; i < site->program->commands.size(); ++i)
    for (int v : writesOf(*site->program->commands[i]))
      if (site->program->values[v]->state == -1 &&
          writerOf(*site->program, v) >= site->at)
        later.push_back(v);
  auto chosen = pick(later.size(), random);
  AtenT &call = site->as<AtenT>();
  for (auto &argument : call.arguments)
    if (argument->kind == ArgumentKind::Value && chosen) {
      argument->value = later[*chosen];
      return say(site->text(), " reads ", later[*chosen]);
    }
  return {};
}

Said outputWhatIsNotThere(PlanT &plan, Random &random) {
  auto program = plan.programs[random() % plan.programs.size()].get();
  if (program->outputs.empty())
    return {};
  // A value whose first byte somebody else writes later.
  std::vector<int> gone;
  for (size_t i = 0; i < program->values.size(); ++i) {
    size_t writer = writerOf(*program, i);
    bool over = false;
    for (size_t k = writer + 1; k < program->commands.size(); ++k) {
      const AtenT *call = program->commands[k]->operation.AsAten();
      if (call && call->view)
        continue;
      for (int v : writesOf(*program->commands[k])) {
        const Place &a = *program->values[i]->place,
                    &b = *program->values[v]->place;
        over |= v != static_cast<int>(i) && a.arena() == b.arena() &&
                a.bytes() && b.bytes() && a.offset() == b.offset() &&
                program->values[v]->part_of == -1;
      }
    }
    if (over)
      gone.push_back(i);
  }
  auto chosen = pick(gone.size(), random);
  if (!chosen)
    return {};
  program->outputs[random() % program->outputs.size()]->value = gone[*chosen];
  return say(program->name, " gives ", gone[*chosen]);
}

Said shrinkValue(PlanT &plan, Random &random) {
  auto site = findValue(plan, random, isOwn);
  if (!site)
    return {};
  const Place place = *site->value().place;
  int64_t by = oneOf({-64, -4, 4, 64}, random);
  if (by < 0 && place.bytes() <= uint64_t(-by))
    by = -by;
  *site->value().place =
      Place(place.arena(), place.offset(), place.bytes() + by);
  return say("value ", site->text(), " by ", by);
}

Said forgetPart(PlanT &plan, Random &random) {
  auto site = findValue(plan, random, [](const ProgramT &, const ValueT &v) {
    return v.part_of != -1;
  });
  if (!site)
    return {};
  if (random() % 2) {
    site->value().part_of = -1;
    return say("value ", site->text(), " is its own");
  }
  return shiftValue(site, oneOf({-64, 64, 1 << 16}, random));
}

uint32_t anotherArena(const Place &place, Random &random) {
  constexpr uint32_t arenas = std::size(arenaNames);
  return (place.arena() + 1 + random() % (arenas - 1)) % arenas;
}

} // namespace

const std::vector<fsdp::test::Mutation> fsdp::test::placeMutations = {
    {"dropped wait",
     [](PlanT &p, Random &r) { return drop(p, r, Operation::Wait); }},
    {"dropped record",
     [](PlanT &p, Random &r) { return drop(p, r, Operation::Record); }},
    {"late wait",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCommand(p, r, Operation::Wait);
       if (!site)
         return {};
       size_t last = site->program->commands.size() - 1;
       size_t to = std::min(last, site->at + 1 + r() % 40);
       moveCommand(*site->program, site->at, to);
       return say(site->text(), " to ", to);
     }},
    {"wrong event",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCommand(p, r, Operation::Wait);
       if (!site)
         return {};
       uint32_t &event = site->as<WaitT>().event;
       event = r() % (site->program->events + 1);
       return say(site->text(), " waits for ", event);
     }},
    {"swapped events",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCommand(p, r, Operation::Record);
       auto other = findCommand(p, r, Operation::Record);
       if (!site || site->program != other->program)
         return {};
       std::swap(site->as<RecordT>().event, other->as<RecordT>().event);
       return say(site->text(), " and ", other->at);
     }},
    {"swapped collectives", swapCollectives},
    {"dropped collective",
     [](PlanT &p, Random &r) { return drop(p, r, Operation::Collective); }},
    {"wrong stream",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCommand(p, r, [](const ProgramT &, const CommandT &c) {
         return c.operation.type != Operation::Record;
       });
       if (!site)
         return {};
       constexpr uint32_t streams = std::size(streamNames);
       uint32_t &stream = site->command().stream;
       stream = (stream + 1 + r() % (streams - 1)) % streams;
       return say(site->text(), " on ", site->command().stream);
     }},
    {"wrong size", shrinkValue},
    {"wrong offset",
     [](PlanT &p, Random &r) {
       return shiftValue(findValue(p, r, isOwn),
                         oneOf({-64, -8, 8, 64, 128, 1 << 20}, r));
     }},
    {"early reuse", reuseEarly},
    {"moved state",
     [](PlanT &p, Random &r) -> Said {
       StateT &state = *p.states[r() % p.states.size()];
       int64_t by = oneOf({-64, 8, 64, 1 << 20}, r);
       if (by < 0 && state.place->offset() < uint64_t(-by))
         return {};
       state.place = std::make_unique<Place>(state.place->arena(),
                                             state.place->offset() + by,
                                             state.place->bytes());
       return say("state ", state.fqn, " by ", by);
     }},
    {"state in another arena",
     [](PlanT &p, Random &r) -> Said {
       StateT &state = *p.states[r() % p.states.size()];
       const Place place = *state.place;
       *state.place =
           Place(anotherArena(place, r), place.offset(), place.bytes());
       return say("state ", state.fqn);
     }},
    {"other arena",
     [](PlanT &p, Random &r) -> Said {
       auto site = findValue(p, r, isOwn);
       const Place place = *site->value().place;
       moveValue(*site->program, site->at,
                 Place(anotherArena(place, r), place.offset(), place.bytes()));
       return say("value ", site->text());
     }},
    {"shrunk arena",
     [](PlanT &p, Random &r) -> Said {
       ArenaT &arena = *p.arenas[r() % p.arenas.size()];
       if (!arena.bytes)
         return {};
       arena.bytes += oneOf({-64, -4096, 64}, r);
       return say(arena.name);
     }},
    {"other live bytes",
     [](PlanT &p, Random &r) -> Said {
       ProgramT &program = *p.programs[r() % p.programs.size()];
       uint64_t &bytes =
           r() % 2 ? program.live_bytes : program.host_live_bytes;
       bytes += oneOf({-4096, -64, 64}, r);
       return say(program.name);
     }},
    {"dropped copy",
     [](PlanT &p, Random &r) { return drop(p, r, Operation::Copy); }},
    {"dropped operator",
     [](PlanT &p, Random &r) { return drop(p, r, Operation::Aten); }},
    {"dropped update",
     [](PlanT &p, Random &r) { return drop(p, r, Operation::Update); }},
    {"doubled update",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCommand(p, r, Operation::Update);
       if (!site)
         return {};
       auto again = std::make_unique<CommandT>(site->command());
       auto &commands = site->program->commands;
       commands.insert(commands.begin() + site->at, std::move(again));
       return say(site->text());
     }},
    {"early update",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCommand(p, r, Operation::Update);
       return moveBefore(site, r);
     }},
    {"update of another copy", updateAnotherCopy},
    {"stale copy", copyAnother},
    {"early copy back", copyBackEarly},
    {"early command",
     [](PlanT &p, Random &r) {
       auto site = findCommand(p, r, [](const ProgramT &, const CommandT &c) {
         return c.operation.type == Operation::Aten ||
                c.operation.type == Operation::Copy ||
                c.operation.type == Operation::Collective;
       });
       return moveBefore(site, r);
     }},
    {"read of what is not there", readWhatIsNotThere},
    {"output that is not there", outputWhatIsNotThere},
    {"part forgotten or outside", forgetPart},
    {"wrong window offset",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCollective(p, r, [](const CollectiveT &c) {
         return c.mapped;
       });
       if (!site)
         return {};
       size_t value = site->as<CollectiveT>().destination;
       return shiftValue(Site{site->program, value},
                         oneOf({-4096, -64, 64, 4096}, r));
     }},
};
