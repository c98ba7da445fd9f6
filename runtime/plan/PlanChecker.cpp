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
    if (state->place->bytes())
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
  checkSchedule(plan);
  names.clear();
  for (const auto &rule : plan.rules) {
    at.require(names.insert(rule->name).second,
               "rule '" + rule->name + "' exists twice");
    checkRule(plan, *rule);
  }
  names.clear();
  for (const auto &program : plan.programs) {
    at.require(names.insert(program->name).second,
               "program '" + program->name + "' exists twice");
    checkProgram(plan, *program);
  }
  at.require(names.count("step"), "it has no program 'step'");
}
