#include "plan/check/PlanChecker.h"
#include "plan/AlignUp.h"
#include "plan/check/CheckingBudget.h"

#include <algorithm>

using namespace fsdp::plan;

namespace {

/// The window's ranges: one of each flat state that a mapped gather shows, the
/// same in all programs, apart from the others'.
void findWindows(const PlanT &plan, PlanFacts &facts) {
  DisjointRanges ranges;
  for (size_t p = 0; p < plan.programs.size(); ++p)
    for (size_t i = 0; i < plan.programs[p]->commands.size(); ++i) {
      const auto &program = plan.programs[p];
      const CollectiveT *gather =
          program->commands[i]->operation.AsCollective();
      if (!gather || !gather->mapped)
        continue;
      Checked at = Checked(plan)
                       .at(PlanEntry::Program, p)
                       .at(PlanEntry::Command, i)
                       .inside("mapped gather");
      at.index(gather->source, program->values.size(), "value");
      at.index(gather->destination, program->values.size(), "value");
      int s = program->values[gather->source]->state;
      at.require(C12, s != -1, "does not gather a flat state into the window");
      at.index(s, plan.states.size(), "state");
      const StateT &state = *plan.states[s];
      const Place *place = program->values[gather->destination]->place.get();
      checkPlace(at, plan, place);
      at.require(C12,
                 gather->kind == CollectiveKind::AllGather && state.is_flat &&
                     place->arena() == windowArena &&
                     isOver(plan, *gather, AxisRole::Shard),
                 "does not gather a flat state into the window");
      at.require(C12, state.place->arena() == deviceArena, "shows '", state.fqn,
                 "', which is on the host");
      auto [it, isNew] = facts.windows.emplace(s, *place);
      at.require(C12, samePlace(it->second, *place), "shows '", state.fqn,
                 "' in another range of the window than before");
      if (isNew)
        if (auto other = ranges.add(place->offset(),
                                    place->offset() + place->bytes(), s))
          at.fail(C12, "shows '", state.fqn, "' where '",
                  plan.states[*other]->fqn, "' is shown");
    }
}

/// An arena is as large as the highest end of a place in it, and no larger: the
/// peak is what the plan says.
void checkArenaSizes(const PlanT &plan) {
  std::vector<uint64_t> ends(plan.arenas.size());
  auto reach = [&](const Place &place) {
    uint64_t &highest = ends[place.arena()];
    highest = std::max(highest, fsdp::alignUp(place.offset() + place.bytes()));
  };
  for (const auto &state : plan.states)
    reach(*state->place);
  for (const auto &program : plan.programs)
    for (const auto &value : program->values)
      reach(*value->place);
  for (size_t i = 0; i < ends.size(); ++i)
    Checked(plan)
        .at(PlanEntry::Arena, i)
        .require(C13, ends[i] == plan.arenas[i]->bytes, "has ",
                 plan.arenas[i]->bytes, " bytes, its places take ", ends[i]);
}

} // namespace

std::string fsdp::plan::describe(const PlanT &plan, const PlanEntry &entry) {
  size_t i = entry.index;
  auto quote = [](const char *thing, const std::string &name) {
    return std::string(thing) + " '" + name + "'";
  };
  auto number = [&](const char *thing, const std::string &name) {
    return ": " + std::string(thing) + " " + std::to_string(i) +
           (name.empty() ? "" : " (" + name + ")");
  };
  if (entry.kind == PlanEntry::Call) {
    const RuleT &rule = *plan.rules[entry.owner];
    return quote("rule", rule.name) + ": " + rule.calls[i]->name;
  }
  if (entry.kind >= PlanEntry::Value) {
    const ProgramT &program = *plan.programs[entry.owner];
    std::string in = quote("program", program.name);
    switch (entry.kind) {
    case PlanEntry::Input:
      return in + ": " + quote("input", program.inputs[i]->name);
    case PlanEntry::Output:
      return in + ": " + quote("output", program.outputs[i]->name);
    case PlanEntry::Command:
      return in + number("command", program.commands[i]->location);
    default:
      return in + number("value", program.values[i]->name);
    }
  }
  switch (entry.kind) {
  case PlanEntry::MeshDim:
    return quote("mesh dimension", plan.mesh[i]->name);
  case PlanEntry::Arena:
    return quote("arena", plan.arenas[i]->name);
  case PlanEntry::Unit:
    return quote("unit", plan.units[i]->name);
  case PlanEntry::State:
    return quote("state", plan.states[i]->fqn);
  case PlanEntry::Rule:
    return quote("rule", plan.rules[i]->name);
  case PlanEntry::Program:
    return quote("program", plan.programs[i]->name);
  default:
    return "";
  }
}

static std::string numbered(Constraint constraint, const std::string &text) {
  return "C" + std::to_string(constraint) + ": " + text;
}

Finding::Finding(Constraint constraint, PlanEntry entry,
                 const std::string &where, const std::string &reason,
                 std::optional<uint32_t> other)
    : PlanError(
          E::PlanConstraint,
          numbered(constraint, where + (where.empty() ? "" : ": ") + reason)),
      constraint(constraint), entry(entry),
      reason(numbered(constraint, reason)), other(other) {}

void Checked::raise(Constraint constraint, std::optional<uint32_t> other,
                    const std::string &why) const {
  throw Finding(constraint, entry, describe(plan, entry),
                detail.empty() ? why : detail + ": " + why, other);
}

void fsdp::plan::checkPlan(const PlanT &plan, const OnFinding &found) {
  bool isSound = true;
  auto attempt = [&](auto check) {
    try {
      check();
    } catch (const Finding &finding) {
      if (!found)
        throw;
      isSound = false;
      found(finding);
    }
  };
  Checked at(plan);
  PlanFacts facts;
  attempt([&] {
    at.require(C20, plan.version == planVersion, "it has version ",
               plan.version, ", this program reads ", planVersion);
    checkTables(plan, facts);
    findWindows(plan, facts);
  });
  if (!isSound)
    return; // nothing of what follows can be read
  CheckingBudget budget(plan);
  for (size_t p = 0; p < plan.programs.size(); ++p)
    attempt([&] {
      Checked here = at.at(PlanEntry::Program, p);
      checkProgram(here, plan, *plan.programs[p], facts, budget);
      checkStaging(here, plan, *plan.programs[p]);
      checkSomeRanks(here, plan, *plan.programs[p], budget);
    });
  if (!isSound)
    return;
  for (auto check : {checkMicroBatches, checkVariants, checkTurns,
                     checkAgreement, checkArenaSizes, checkMeanings})
    attempt([&] { check(plan); });
}
