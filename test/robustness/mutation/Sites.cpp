#include "Sites.h"

using namespace fsdp::plan;
using namespace fsdp::test;

std::optional<size_t> fsdp::test::pick(size_t size, Random &random) {
  return size ? std::optional<size_t>(random() % size) : std::nullopt;
}

int64_t fsdp::test::oneOf(std::initializer_list<int64_t> list, Random &random) {
  return *(list.begin() + random() % list.size());
}

/// One of the sites in `list` of all programs that fit.
template <typename List, typename Fits>
static std::optional<Site> find(PlanT &plan, Random &random, List list,
                                const Fits &fits) {
  std::vector<Site> sites;
  for (auto &program : plan.programs)
    for (size_t i = 0; i < ((*program).*list).size(); ++i)
      if (fits(*program, *((*program).*list)[i]))
        sites.push_back({program.get(), i});
  auto chosen = pick(sites.size(), random);
  return chosen ? std::optional<Site>(sites[*chosen]) : std::nullopt;
}

std::optional<Site> fsdp::test::findCommand(PlanT &plan, Random &random,
                                            const FitsCommand &fits) {
  return find(plan, random, &ProgramT::commands, fits);
}

std::optional<Site> fsdp::test::findCommand(PlanT &plan, Random &random,
                                            Operation type) {
  return findCommand(plan, random,
                     [type](const ProgramT &, const CommandT &command) {
                       return command.operation.type == type;
                     });
}

std::optional<Site> fsdp::test::findCollective(
    PlanT &plan, Random &random,
    const std::function<bool(const CollectiveT &)> &fits) {
  return findCommand(plan, random,
                     [&](const ProgramT &, const CommandT &command) {
                       const auto *c = command.operation.AsCollective();
                       return c && fits(*c);
                     });
}

std::optional<Site> fsdp::test::findValue(PlanT &plan, Random &random,
                                          const FitsValue &fits) {
  return find(plan, random, &ProgramT::values, fits);
}

bool fsdp::test::isOwn(const ProgramT &, const ValueT &value) {
  return value.view_of == -1 && value.part_of == -1 && value.state == -1 &&
         value.place->bytes();
}

std::vector<int> fsdp::test::writesOf(const CommandT &command) {
  std::vector<int> written;
  if (const AtenT *call = command.operation.AsAten()) {
    for (int result : call->results)
      if (result != -1)
        written.push_back(result);
  } else if (const CopyT *copy = command.operation.AsCopy()) {
    for (const auto &piece : copy->pieces)
      written.push_back(piece->destination);
  } else if (const CollectiveT *c = command.operation.AsCollective()) {
    written = {static_cast<int>(c->destination)};
  }
  return written;
}

std::string fsdp::test::bufferOf(const PlanT &plan, const Site &site) {
  for (int written : writesOf(site.command()))
    if (int state = site.program->values[written]->state;
        state != -1 && plan.states[state]->role == Role::Buffer)
      return " of buffer '" + plan.states[state]->fqn + "'";
  return "";
}

size_t fsdp::test::writerOf(const ProgramT &program, int value) {
  for (size_t i = 0; i < program.commands.size(); ++i)
    for (int written : writesOf(*program.commands[i]))
      if (written == value)
        return i;
  return program.commands.size();
}

void fsdp::test::moveCommand(ProgramT &program, size_t from, size_t to) {
  auto &commands = program.commands;
  auto command = std::move(commands[from]);
  commands.erase(commands.begin() + from);
  commands.insert(commands.begin() + to, std::move(command));
}

Said fsdp::test::moveBefore(const std::optional<Site> &site, Random &random) {
  if (!site || !site->at)
    return {};
  size_t to = random() % site->at;
  moveCommand(*site->program, site->at, to);
  return say(site->text(), " to ", to);
}

void fsdp::test::moveValue(ProgramT &program, size_t value, Place to) {
  const Place from = *program.values[value]->place;
  std::vector<bool> moves(program.values.size());
  moves[value] = true;
  for (size_t i = value; i < program.values.size(); ++i) {
    ValueT &v = *program.values[i];
    moves[i] = moves[i] || (v.view_of != -1 && moves[v.view_of]) ||
               (v.part_of != -1 && moves[v.part_of]);
    if (moves[i])
      v.place = std::make_unique<Place>(
          to.arena(), v.place->offset() - from.offset() + to.offset(),
          v.place->bytes());
  }
}

Said fsdp::test::shiftValue(const std::optional<Site> &site, int64_t by) {
  if (!site)
    return {};
  const Place place = *site->value().place;
  if (by < 0 && place.offset() < uint64_t(-by))
    return {};
  moveValue(*site->program, site->at,
            Place(place.arena(), place.offset() + by, place.bytes()));
  return say("value ", site->text(), " by ", by);
}
