#include "plan/PlanChecker.h"
#include "plan/CheckerSupport.h"

#include <algorithm>

using namespace fsdp::plan;

namespace {

/// The window's ranges: one of each flat state that a mapped gather shows, the
/// same in all programs, apart from the others'.
void findWindows(const PlanT &plan, PlanFacts &facts) {
  DisjointRanges ranges;
  for (const auto &program : plan.programs)
    for (const auto &command : program->commands) {
      const CollectiveT *gather = command->operation.AsCollective();
      if (!gather || !gather->mapped)
        continue;
      Checked at("program '", program->name, "': mapped gather (",
                 command->location, ")");
      at.index(gather->source, program->values.size(), "value");
      at.index(gather->destination, program->values.size(), "value");
      int s = program->values[gather->source]->state;
      at.index(s, plan.states.size(), "state");
      const StateT &state = *plan.states[s];
      const Place *place = program->values[gather->destination]->place.get();
      checkPlace(at, plan, place);
      at.require(gather->kind == CollectiveKind::AllGather && state.is_flat &&
                     place->arena() == windowArena &&
                     gather->mesh_dim == shardDim(plan),
                 "does not gather a flat state into the window");
      at.require(state.place->arena() == deviceArena, "shows '", state.fqn,
                 "', which is on the host");
      auto [it, isNew] = facts.windows.emplace(s, *place);
      at.require(samePlace(it->second, *place), "shows '", state.fqn,
                 "' in another range of the window than before");
      if (isNew)
        if (auto other = ranges.add(place->offset(),
                                    place->offset() + place->bytes(), s))
          at.fail("shows '", state.fqn, "' where '", plan.states[*other]->fqn,
                  "' is shown");
    }
}

/// An arena is as large as the highest end of a place in it, and no larger: the
/// peak is what the plan says.
void checkArenaSizes(const PlanT &plan) {
  std::vector<uint64_t> ends(plan.arenas.size());
  auto reach = [&](const Place &place) {
    uint64_t end = place.offset() + place.bytes() + placeAlignment - 1;
    uint64_t &highest = ends[place.arena()];
    highest = std::max(highest, end - end % placeAlignment);
  };
  for (const auto &state : plan.states)
    reach(*state->place);
  for (const auto &program : plan.programs)
    for (const auto &value : program->values)
      reach(*value->place);
  for (size_t i = 0; i < ends.size(); ++i)
    Checked("arena '", plan.arenas[i]->name, "'")
        .require(ends[i] == plan.arenas[i]->bytes, "has ",
                 plan.arenas[i]->bytes, " bytes, its places take ", ends[i]);
}

} // namespace

void fsdp::plan::checkPlan(const PlanT &plan) {
  Checked at;
  at.require(plan.version == planVersion, "it has version ", plan.version,
             ", this program reads ", planVersion);
  PlanFacts facts;
  checkTables(plan, facts);
  findWindows(plan, facts);
  for (const auto &program : plan.programs) {
    checkProgram(plan, *program, facts);
    checkStaging(plan, *program);
  }
  checkMicroBatches(plan);
  checkArenaSizes(plan);
}
