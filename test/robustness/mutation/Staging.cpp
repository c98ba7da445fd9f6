#include "Staging.h"

using namespace fsdp::plan;
using namespace fsdp::test;

/// An update that changes a copy of its parameter.
static std::optional<Site> findUpdate(PlanT &plan, Random &random) {
  return findCommand(plan, random,
                     [](const ProgramT &, const CommandT &command) {
                       const auto *update = command.operation.AsUpdate();
                       return update && update->staged != -1;
                     });
}

/// The copy that such an update changes, or the one back.
static std::optional<Site> findCopy(PlanT &plan, Random &random, bool back) {
  auto update = findUpdate(plan, random);
  if (!update)
    return {};
  int staged = update->as<UpdateT>().staged;
  return findCommand(
      plan, random, [&](const ProgramT &program, const CommandT &command) {
        const auto *copy = command.operation.AsCopy();
        if (&program != update->program || !copy)
          return false;
        const PieceT &piece = *copy->pieces[0];
        return (back ? piece.source : piece.destination) == staged;
      });
}

Said fsdp::test::updateAnotherCopy(PlanT &plan, Random &random) {
  auto site = findUpdate(plan, random), other = findUpdate(plan, random);
  if (!site)
    return {};
  int &staged = site->as<UpdateT>().staged;
  int another = other->as<UpdateT>().staged;
  bool fits = site->program == other->program && another != staged;
  staged = fits ? another : -1;
  return say(site->text(), " changes ", staged);
}

Said fsdp::test::copyAnother(PlanT &plan, Random &random) {
  auto site = findCopy(plan, random, /*back=*/false);
  if (!site)
    return {};
  int &source = site->as<CopyT>().pieces[0]->source;
  const auto &values = site->program->values;
  std::vector<size_t> others;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i]->view_of == -1 &&
        !samePlace(*values[i]->place, *values[source]->place) &&
        values[i]->place->arena() == values[source]->place->arena() &&
        values[i]->place->bytes() >= values[source]->place->bytes())
      others.push_back(i);
  auto chosen = pick(others.size(), random);
  if (!chosen)
    return {};
  source = others[*chosen];
  return say(site->text(), " copies ", source);
}

Said fsdp::test::copyBackEarly(PlanT &plan, Random &random) {
  auto site = findCopy(plan, random, /*back=*/true);
  if (!site)
    return {};
  const auto &commands = site->program->commands;
  int staged = site->as<CopyT>().pieces[0]->source;
  for (size_t to = 0; to < site->at; ++to)
    if (const auto *update = commands[to]->operation.AsUpdate();
        update && update->staged == staged) {
      moveCommand(*site->program, site->at, to);
      return say(site->text(), " to ", to);
    }
  return {};
}
