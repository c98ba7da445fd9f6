#include "plan/PlanChecker.h"
#include "plan/CheckerSupport.h"

#include <algorithm>
#include <set>

using namespace fsdp::plan;

namespace {

// Bounds that keep sums of sizes far from overflow.
constexpr uint64_t maxArenaBytes = uint64_t(1) << 50;
constexpr uint64_t maxRanks = uint64_t(1) << 20;

void checkMesh(const PlanT &plan) {
  uint64_t ranks = 1;
  std::set<std::string> names;
  for (const auto &dim : plan.mesh) {
    Checked at("mesh dimension '" + dim->name + "'");
    at.require(!dim->name.empty() && names.insert(dim->name).second,
               "its name is empty or used twice");
    at.require(dim->size >= 1 && dim->size <= maxRanks,
               "has no ranks, or more than 2^20");
    ranks *= dim->size;
    at.require(ranks <= maxRanks, "the mesh has more than 2^20 ranks");
  }
}

void checkArenas(const PlanT &plan) {
  Checked at("arenas");
  at.require(plan.arenas.size() == 2, "a plan has two, this one has " +
                                          std::to_string(plan.arenas.size()));
  for (size_t i = 0; i < plan.arenas.size(); ++i) {
    at.require(plan.arenas[i]->name == arenaNames[i],
               "arena " + std::to_string(i) + " is '" + plan.arenas[i]->name +
                   "', not '" + arenaNames[i] + "'");
    at.require(plan.arenas[i]->bytes <= maxArenaBytes,
               "arena '" + plan.arenas[i]->name +
                   "' is larger than 2^50 bytes");
  }
}

void checkShardedShape(const Checked &at, const PlanT &plan,
                       const StateT &state) {
  at.require(numElements(state.shape).has_value(),
             "shape " + formatShape(state.shape) + " is not a shape");
  at.require(state.shard_dim >= -1 &&
                 state.shard_dim < static_cast<int64_t>(state.shape.size()),
             "shard dimension " + std::to_string(state.shard_dim) +
                 " does not exist in " + formatShape(state.shape));
  bool fits = state.shape.size() == state.local_shape.size();
  for (size_t i = 0; fits && i < state.shape.size(); ++i) {
    int64_t whole = state.shape[i], local = state.local_shape[i];
    if (static_cast<int>(i) != state.shard_dim)
      fits = whole == local;
    else // Each rank holds as much, so that all together hold the whole.
      fits =
          local >= 0 && static_cast<__int128>(local) * numRanks(plan) >= whole;
  }
  at.require(fits, "local shape " + formatShape(state.local_shape) +
                       " does not cover " + formatShape(state.shape));
}

/// A state whose elements lie in a flat one.
void checkMember(const Checked &at, const PlanT &plan, const StateT &state) {
  at.index(state.flat, plan.states.size(), "state");
  const StateT &flat = *plan.states[state.flat];
  at.require(flat.is_flat && flat.flat == -1 && flat.shape.size() == 1 &&
                 flat.dtype == state.dtype && flat.role == state.role &&
                 flat.place && samePlace(*flat.place, *state.place),
             "does not lie in '" + flat.fqn +
                 "', which is no flat state of "
                 "its role, dtype and place");
  uint64_t size = flat.shape[0] < 0 ? 0 : flat.shape[0];
  at.require(
      state.flat_offset * dtypeBytes(state.dtype) % placeAlignment == 0 &&
          state.flat_offset <= size &&
          uint64_t(*numElements(state.shape)) <= size - state.flat_offset,
      "its elements from " + std::to_string(state.flat_offset) +
          " on are not aligned, or reach past the end of '" + flat.fqn + "'");
}

/// No two members of a flat state share elements.
void checkMembersApart(const PlanT &plan) {
  std::map<std::pair<int, uint64_t>, const StateT *> members;
  for (const auto &state : plan.states)
    if (state->flat != -1 && *numElements(state->shape))
      Checked("state '" + state->fqn + "'")
          .require(members
                       .emplace(std::make_pair(state->flat, state->flat_offset),
                                state.get())
                       .second,
                   "shares elements with another state");
  for (auto it = members.begin(), next = it; it != members.end(); it = next)
    if (++next != members.end() && next->first.first == it->first.first)
      Checked("state '" + next->second->fqn + "'")
          .require(it->first.second + *numElements(it->second->shape) <=
                       next->first.second,
                   "shares elements with state '" + it->second->fqn + "'");
}

void checkStates(const PlanT &plan) {
  std::set<std::string> names;
  std::vector<std::pair<uint64_t, const StateT *>> byOffset;
  for (const auto &state : plan.states) {
    Checked at("state '" + state->fqn + "'");
    at.require(!state->fqn.empty() && names.insert(state->fqn).second,
               "its name is empty or used twice");
    for (const std::string &alias : state->aliases)
      at.require(!alias.empty() && names.insert(alias).second,
                 "its alias '" + alias + "' is empty or used twice");
    at.require(state->role <= Role::MAX, "its role is unknown");
    at.require(state->dtype <= DType::MAX, "its dtype is unknown");
    checkShardedShape(at, plan, *state);
    checkPlace(at, plan, state->place.get());
    at.require(state->place->arena() == deviceArena,
               "lies outside the device arena");
    if (state->flat != -1)
      checkMember(at, plan, *state);
    else
      checkTensor(at, state->local_shape, state->strides, state->dtype,
                  *state->place);
    if (state->unit != -1)
      at.index(state->unit, plan.units.size(), "unit");
    bool optimizer = state->role == Role::Optimizer;
    at.require(optimizer == (state->parameter != -1),
               "optimizer state, and nothing else, belongs to a parameter");
    if (optimizer) {
      at.index(state->parameter, plan.states.size(), "state");
      at.require(plan.states[state->parameter]->role == Role::Parameter,
                 "belongs to '" + plan.states[state->parameter]->fqn +
                     "', which is no parameter");
    }
    if (state->place->bytes() && state->flat == -1)
      byOffset.emplace_back(state->place->offset(), state.get());
  }
  std::sort(byOffset.begin(), byOffset.end());
  for (size_t i = 1; i < byOffset.size(); ++i) {
    const StateT &before = *byOffset[i - 1].second;
    Checked("state '" + byOffset[i].second->fqn + "'")
        .require(before.place->offset() + before.place->bytes() <=
                     byOffset[i].first,
                 "shares bytes with state '" + before.fqn + "'");
  }
}

void checkRule(const PlanT &plan, const RuleT &rule) {
  Checked at("rule '" + rule.name + "'");
  at.require(rule.operands >= 2 && rule.operands <= rule.dtypes.size(),
             "needs a parameter and a gradient, and a dtype for each operand");
  for (DType dtype : rule.dtypes)
    at.require(dtype <= DType::MAX, "has a value of an unknown dtype");
  checkScalars(at, rule.scalars, plan.group_learning_rates.size());

  std::vector<bool> written(rule.dtypes.size());
  std::fill_n(written.begin(), rule.operands, true);
  auto read = [&](int64_t i) {
    at.index(i, written.size(), "value");
    at.require(written[i],
               "reads value " + std::to_string(i) + " before it is written");
  };
  for (const auto &call : rule.calls) {
    checkArguments(at.inside(call->name), *call, rule.scalars.size(), read);
    for (int result : call->results) {
      if (result == -1)
        continue;
      at.index(result, written.size(), "value");
      at.require(!written[result],
                 "writes value " + std::to_string(result) + " twice");
      written[result] = true;
    }
  }
  at.require(rule.results.size() == rule.operands - 1,
             "must give a result for the parameter and for each state");
  for (size_t i = 0; i < rule.results.size(); ++i) {
    read(rule.results[i]);
    size_t operand = i == 0 ? 0 : i + 1;
    at.require(rule.dtypes[rule.results[i]] == rule.dtypes[operand],
               "result " + std::to_string(i) + " changes its dtype");
  }
}

void checkSchedule(const PlanT &plan) {
  Checked at("learning rates");
  size_t groups = plan.group_learning_rates.size();
  at.require(plan.learning_rate_table.empty() ||
                 (groups && plan.learning_rate_table.size() % groups == 0),
             "the table is not rows of " + std::to_string(groups) +
                 " parameter groups");
  Checked("length").require(!plan.epochs || !plan.steps,
                            "epochs and steps are both given");
}

} // namespace

void fsdp::plan::checkPlace(const Checked &at, const PlanT &plan,
                            const Place *place) {
  at.require(place, "has no place");
  at.index(place->arena(), plan.arenas.size(), "arena");
  const ArenaT &arena = *plan.arenas[place->arena()];
  at.require(place->offset() % placeAlignment == 0,
             "its place at " + std::to_string(place->offset()) +
                 " is not a multiple of 64");
  at.require(place->offset() <= arena.bytes &&
                 place->bytes() <= arena.bytes - place->offset(),
             "its place reaches past the end of the " + arena.name + " arena");
}

void fsdp::plan::checkTensor(const Checked &at,
                             const std::vector<int64_t> &shape,
                             const std::vector<int64_t> &strides, DType dtype,
                             const Place &place) {
  std::optional<uint64_t> bytes = spanBytes(shape, strides, dtype);
  at.require(bytes.has_value(), "shape " + formatShape(shape) +
                                    " and strides " + formatShape(strides) +
                                    " do not describe a tensor");
  at.require(*bytes <= place.bytes(), "needs " + std::to_string(*bytes) +
                                          " bytes, its place has " +
                                          std::to_string(place.bytes()));
}

void fsdp::plan::checkScalars(
    const Checked &at, const std::vector<std::unique_ptr<ScalarT>> &scalars,
    size_t groups) {
  for (size_t i = 0; i < scalars.size(); ++i) {
    const ScalarT &scalar = *scalars[i];
    Checked here = at.inside("scalar " + std::to_string(i));
    int operands = 0;
    switch (scalar.kind) {
    case ScalarKind::Constant:
    case ScalarKind::Step:
      break;
    case ScalarKind::LearningRate:
      here.index(scalar.group, groups, "parameter group");
      break;
    case ScalarKind::Negate:
      operands = 1;
      break;
    case ScalarKind::Add:
    case ScalarKind::Subtract:
    case ScalarKind::Multiply:
    case ScalarKind::Divide:
    case ScalarKind::Power:
      operands = 2;
      break;
    case ScalarKind::Select:
      operands = 4;
      break;
    default:
      here.fail("its kind is unknown");
    }
    const int given[] = {scalar.a, scalar.b, scalar.c, scalar.d};
    for (int k = 0; k < operands; ++k)
      here.require(given[k] >= 0 && static_cast<size_t>(given[k]) < i,
                   "refers to scalar " + std::to_string(given[k]) +
                       ", which is not an earlier one");
  }
}

/// The window's ranges: one of each flat state that a mapped gather shows, the
/// same in all programs, apart from the others'.
static Windows findWindows(const PlanT &plan) {
  Windows windows;
  for (const auto &program : plan.programs)
    for (const auto &command : program->commands) {
      const CollectiveT *gather = command->operation.AsCollective();
      if (!gather || !gather->mapped)
        continue;
      Checked at("program '" + program->name + "': mapped gather (" +
                 command->location + ")");
      at.require(gather->kind == CollectiveKind::AllGather, "gathers nothing");
      at.index(gather->source, program->values.size(), "value");
      at.index(gather->destination, program->values.size(), "value");
      int state = program->values[gather->source]->state;
      at.index(state, plan.states.size(), "state");
      const Place *place = program->values[gather->destination]->place.get();
      checkPlace(at, plan, place);
      at.require(plan.states[state]->is_flat && place->arena() == windowArena,
                 "is not of a flat state into the window");
      at.require(
          samePlace(windows.emplace(state, *place).first->second, *place),
          "shows '" + plan.states[state]->fqn +
              "' in another range of the window than one before");
    }
  std::map<uint64_t, uint64_t> ranges; // begins and ends
  for (const auto &[state, place] : windows)
    if (!ranges.emplace(place.offset(), place.offset() + place.bytes()).second)
      Checked("window").fail("two flat states start at one offset");
  for (auto it = ranges.begin(), next = it; it != ranges.end(); it = next)
    if (++next != ranges.end() && it->second > next->first)
      Checked("window").fail("two flat states share bytes");
  return windows;
}

/// An arena is as large as the highest end of a place in it, and no larger: the
/// peak is what the plan says.
static void checkArenaSizes(const PlanT &plan) {
  std::vector<uint64_t> ends(plan.arenas.size());
  auto reach = [&](const Place &place) {
    uint64_t end = place.offset() + place.bytes();
    end += (placeAlignment - end % placeAlignment) % placeAlignment;
    ends[place.arena()] = std::max(ends[place.arena()], end);
  };
  for (const auto &state : plan.states)
    reach(*state->place);
  for (const auto &program : plan.programs)
    for (const auto &value : program->values)
      reach(*value->place);
  for (size_t i = 0; i < ends.size(); ++i)
    Checked("arena '" + plan.arenas[i]->name + "'")
        .require(ends[i] == plan.arenas[i]->bytes,
                 "has " + std::to_string(plan.arenas[i]->bytes) +
                     " bytes, its places take " + std::to_string(ends[i]));
}

void fsdp::plan::checkPlan(const PlanT &plan) {
  Checked at("");
  at.require(plan.version == planVersion,
             "it has version " + std::to_string(plan.version) +
                 ", this program reads " + std::to_string(planVersion) +
                 "; lower it again");
  checkMesh(plan);
  checkArenas(plan);
  std::set<std::string> names;
  for (const auto &unit : plan.units)
    at.require(names.insert(unit->name).second,
               "unit '" + unit->name + "' exists twice");
  checkStates(plan);
  checkMembersApart(plan);
  checkSchedule(plan);
  names.clear();
  for (const auto &rule : plan.rules) {
    at.require(names.insert(rule->name).second,
               "rule '" + rule->name + "' exists twice");
    checkRule(plan, *rule);
  }
  names.clear();
  Windows windows = findWindows(plan);
  for (const auto &program : plan.programs) {
    at.require(names.insert(program->name).second,
               "program '" + program->name + "' exists twice");
    checkProgram(plan, *program, windows);
  }
  at.require(names.count("step"), "it has no program 'step'");
  checkArenaSizes(plan);
}
